package pgtest

import "syscall"

// memoryBase returns the folder of the machine's memory file system, if it has
// room for what tests store. Creating a database makes some hundred files,
// which takes many times longer on a busy disk.
func memoryBase() (string, bool) {
	const (
		dir   = "/dev/shm"
		tmpfs = 0x01021994
		room  = 6 << 30 // containers often have 64 MB, machines half their memory
	)
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || int64(st.Type) != tmpfs {
		return "", false
	}
	return dir, st.Bavail*uint64(st.Bsize) >= room
}
