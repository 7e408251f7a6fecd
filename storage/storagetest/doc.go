// Package storagetest is the conformance suite of package storage. Any
// [storage.Driver] can be proved with it:
//
//	func TestConformance(t *testing.T) {
//		storagetest.Run(t, func(t testing.TB) storage.Driver {
//			return open(t) // a new, empty store
//		})
//	}
//
// Every test opens a store of its own and closes it. The store must be empty: the
// suite chooses environments, keys and identifiers as it likes. It sees the store
// through the contract alone, so a pass says nothing about speed, round trips or
// what is on disk.
//
// # Interleavings
//
// Where two transactions must meet, they do so at points that the tests choose and
// wait for; nothing sleeps, and no test depends on who is faster. Two kinds of
// tests differ in what they ask of a driver that has a pool of connections:
//
//   - most of them let a second transaction begin and end while the first has done
//     no more than point reads and candidate queries in its first attempt. A driver
//     that holds no connection then can run them with a single one;
//   - the others hold two transactions open at once (two exclusive pages, say).
//     [RunSingle] leaves these out.
//
// # Random programs
//
// Three tests run programs drawn by pgregory.net/rapid and compare what they see with
// a model. A program that fails is shrunk and kept under testdata/rapid beside the
// test that called Run; later runs try it first, until the file is deleted.
//
// # Settings
//
// A driver that passes in one setting is proved in others, such as another way of
// sending statements, with [Options.Brief]: every test runs, and the long ones try less.
//
// # Profiles
//
// A test is skipped only if the driver's [storage.Profile] says that it does not
// promise what the test proves; the skip message says what that is. No driver can
// opt out of anything else.
//
// # Faults
//
// What only a network can do (a connection that dies while a commit is under way,
// a server that restarts) is not in here: it needs tests that know the driver.
package storagetest
