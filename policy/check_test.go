package policy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/policy"
)

// project is a folder with a policy file.
type project struct {
	t   *testing.T
	dir string
}

func newProject(t *testing.T, files map[string]string) *project {
	p := &project{t, t.TempDir()}
	p.write(files)
	return p
}

func (p *project) write(files map[string]string) { write(p.t, p.dir, files) }

// check checks the project, and returns what it finds as "file:line code object; note".
func (p *project) check(base string) []string {
	p.t.Helper()
	report, err := policy.Check(policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "policy"), Base: base})
	require.NoError(p.t, err)
	list := []string{}
	for _, f := range report.Findings {
		note := ""
		if f.Note != "" {
			note = ": " + f.Note
		}
		list = append(list, f.File+" "+f.Code+" "+f.Object+note)
	}
	return list
}

func (p *project) git(args ...string) {
	p.t.Helper()
	command := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	command.Dir = p.dir
	out, err := command.CombinedOutput()
	require.NoError(p.t, err, string(out))
}

const lock = "SELECT pg_advisory_lock(1);\n"

func TestInventory(t *testing.T) {
	for _, c := range []struct {
		title     string
		sql       string
		inventory string
		want      []string
	}{
		{"an unlisted lock", lock, "", []string{"a.sql SP104 pg_advisory_lock"}},
		{"a listed lock", lock, "SP104 | a.sql | pg_advisory_lock | 1 | - | why", nil},
		{"a listed lock in another file", lock, "SP104 | b.sql | pg_advisory_lock | 1 | - | why",
			[]string{"a.sql SP104 pg_advisory_lock", "policy SP901 SP104 pg_advisory_lock: nothing is behind this line any more: delete it"}},
		{"one more than listed", lock + lock, "SP104 | a.sql | pg_advisory_lock | 1 | - | why",
			[]string{"a.sql SP104 pg_advisory_lock: there are 2, line 1 of policy lists 1", "a.sql SP104 pg_advisory_lock: there are 2, line 1 of policy lists 1"}},
		{"one less than listed", lock, "\nSP104 | a.sql | pg_advisory_lock | 2 | - | why",
			[]string{"policy SP901 SP104 pg_advisory_lock: there are 1 and the line lists 2: lower its count"}},
		{"a lock that is gone", "SELECT 1", "SP104 | a.sql | pg_advisory_lock | 1 | - | why",
			[]string{"policy SP901 SP104 pg_advisory_lock: nothing is behind this line any more: delete it"}},
		{"an allowed rule", lock, "allow | SP104 | *.sql | - | why", nil},
		{"an allowed rule, and another", lock + "LOCK TABLE t", "allow | SP104 | ** | - | why", []string{"a.sql SP103 t"}},
		{"an allowance without need", "SELECT 1", "allow | SP104 | a.sql | - | why", []string{"policy SP901 allow a.sql: there is nothing to allow: delete the line"}},
		{"a file that is not read", "no SQL at all", "allow | * | a.sql | - | why", nil},
		{"a file that is not there", lock, "allow | * | old/ | - | why", []string{"a.sql SP104 pg_advisory_lock", "policy SP901 allow old/: there is nothing to allow: delete the line"}},
		{"a rule that is off", lock, "rule | SP104 | off | - | why", nil},
		{"a rule that is on", "CREATE TABLE outbox (id int)", "rule | SP201 | refuse | - | why", []string{"a.sql SP201 outbox: by its name"}},
		{"an object with a bar", `CREATE TABLE "a|b" (c int CHECK (c > 0))`, `SP101 | a.sql | a\|b.c | 1 | - | why`, nil},
		{"a hole", "DROP TABLE {t}", "template | *.sql | {t} | t", nil},
		{"a hole without a file", "DROP TABLE t", "template | *.sql | {t} | t", []string{"policy SP901 template {t}: no file has this hole: delete the line"}},
		{"a lock in a hole's neighbourhood", "LOCK TABLE {t}", "template | *.sql | {*} | name", []string{"a.sql SP103 hole_t"}},
		{"a lock behind holes of other lengths", "SELECT {columns_of_all_kinds}\nFROM {t} WHERE {x} FOR UPDATE", "template | *.sql | {*} | name", []string{"a.sql SP106 FOR UPDATE"}},
		{"owners", "CREATE TABLE t (firm int, p int REFERENCES q)", "rule | SP202 | refuse | - | why\nowner | firm", []string{"a.sql SP202 t to q"}},
		{"a known approval", lock, "approvals | rows.md\nSP104 | a.sql | pg_advisory_lock | 1 | 7 | why", nil},
		{"an unknown approval", lock, "approvals | rows.md\nSP104 | a.sql | pg_advisory_lock | 1 | 7,8 | why", []string{"policy SP903 SP104 pg_advisory_lock: rows.md has no row 8"}},
		{"an approval that must be", lock, "approvals | rows.md | required\nSP104 | a.sql | pg_advisory_lock | 1 | - | why",
			[]string{"policy SP903 SP104 pg_advisory_lock: every line must name a row of rows.md"}},
		{"an approval of nothing", lock, "SP104 | a.sql | pg_advisory_lock | 1 | 7 | why", []string{"policy SP903 SP104 pg_advisory_lock: there is no line approvals | FILE in policy"}},
	} {
		t.Run(c.title, func(t *testing.T) {
			p := newProject(t, map[string]string{"a.sql": c.sql, "policy": c.inventory, "rows.md": "| # | what |\n| --- | --- |\n| 7 | yes |\n"})
			assert.ElementsMatch(t, c.want, p.check(""))
		})
	}
}

func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		"SP104 | a.sql | pg_advisory_lock | 1 | -":           `want "CODE | FILE | OBJECT | COUNT | APPROVAL | REASON"`,
		"SP104 | a.sql | pg_advisory_lock | 1 | - | ":        `want "CODE | FILE | OBJECT | COUNT | APPROVAL | REASON"`,
		"SP104 | a.sql | pg_advisory_lock | none | - | why":  `"none" is no count`,
		"SP104 | a.sql | pg_advisory_lock | 0 | - | why":     `"0" is no count`,
		"SP999 | a.sql | pg_advisory_lock | 1 | - | why":     `"SP999" is neither a code nor one of`,
		"SP901 | policy | x | 1 | - | why":                   "is about this file itself",
		"allow | SP1 | a.sql | - | why":                      `"SP1" is no code`,
		"allow | SP104 | a.sql":                              `want "allow | CODES or * | FILES | APPROVAL | REASON"`,
		"rule | SP104 | maybe | - | why":                     `"maybe" is no level`,
		"rule | SP901 | off | - | why":                       `"SP901" is no code`,
		"template | a.sql":                                   `want "template | FILES | HOLE | TEXT"`,
		"approvals":                                          `want "approvals | FILE [| required]"`,
		"approvals | a.md\napprovals | b.md":                 "repeats line 2",
		"skip everything":                                    "is neither a code nor one of",
		"allow | * | a | - | b\nallow | * | a | 7 | another": "repeats line 2",
	} {
		p := newProject(t, map[string]string{"a.sql": "SELECT 1", "policy": "# comment\n" + line})
		_, err := policy.Check(policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "policy")})
		require.ErrorContains(t, err, want, line)
		assert.Regexp(t, `^policy:[23]: `, err.Error())
	}
}

func TestCouldNotCheck(t *testing.T) {
	p := newProject(t, map[string]string{"empty/readme.txt": "x", "a.sql": "SELECT 1", "bare": "", "far": "approvals | nowhere.md"})
	p.git("init", "-q")
	for _, c := range []struct {
		options policy.Options
		want    string
	}{
		{policy.Options{}, "no path was given"},
		{policy.Options{Paths: []string{filepath.Join(p.dir, "nowhere")}}, "no such file"},
		{policy.Options{Paths: []string{filepath.Join(p.dir, "empty")}}, "neither SQL nor Go"},
		{policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "none")}, "the policy file"},
		{policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "far")}, "the file of approvals"},
		{policy.Options{Paths: []string{p.dir}, Base: "HEAD"}, "it needs --inventory"},
		{policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "bare"), Base: "nowhere"}, `the base "nowhere" is no revision`},
		{policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "bare"), Base: "--help"}, `the base "--help" is no revision`},
	} {
		_, err := policy.Check(c.options)
		assert.ErrorContains(t, err, c.want)
	}
}

// TestBase compares the policy file with the one of a revision.
func TestBase(t *testing.T) {
	const listed = "SP104 | a.sql | pg_advisory_lock | 1 | - | why\n"
	setup := func(t *testing.T) *project {
		p := newProject(t, map[string]string{
			"a.sql": lock, "rows.md": "| 7 | yes |\n| 8 | yes |\n",
			"policy": "approvals | rows.md\n" + listed + "SP103 | a.sql | t | 1 | 7 | why\n",
		})
		p.write(map[string]string{"a.sql": lock + "LOCK TABLE t;\n"})
		p.git("init", "-q")
		p.git("add", ".")
		p.git("commit", "-q", "-m", "base")
		return p
	}
	const head = "approvals | rows.md\n"
	const table = "SP103 | a.sql | t | 1 | 7 | why\n"
	for _, c := range []struct {
		title string
		files map[string]string
		want  []string
	}{
		{"nothing", nil, nil},
		{"a line less", map[string]string{"a.sql": lock, "policy": head + listed}, nil},
		{"a line more", map[string]string{"b.sql": "LOCK TABLE u", "policy": head + listed + table + "SP103 | b.sql | u | 1 | - | why"},
			[]string{"policy SP902 SP103 u: the line is not in HEAD"}},
		{"a line more, approved", map[string]string{"b.sql": "LOCK TABLE u", "policy": head + listed + table + "SP103 | b.sql | u | 1 | 8 | why"}, nil},
		{"a line more, approved by nobody", map[string]string{"b.sql": "LOCK TABLE u", "policy": head + listed + table + "SP103 | b.sql | u | 1 | 9 | why"},
			[]string{"policy SP903 SP103 u: rows.md has no row 9"}},
		{"a higher count", map[string]string{"a.sql": lock + lock + "LOCK TABLE t", "policy": head + strings.Replace(listed, "| 1 |", "| 2 |", 1) + table},
			[]string{"policy SP902 SP104 pg_advisory_lock: the count is 2, and 1 in HEAD: a higher count needs a further approval"}},
		{"a higher count with the old approval", map[string]string{"a.sql": lock + "LOCK t; LOCK t", "policy": head + listed + strings.Replace(table, "| 1 |", "| 2 |", 1)},
			[]string{"policy SP902 SP103 t: the count is 2, and 1 in HEAD: a higher count needs a further approval"}},
		{"a higher count with another approval", map[string]string{"a.sql": lock + "LOCK t; LOCK t", "policy": head + listed + "SP103 | a.sql | t | 2 | 7,8 | why"}, nil},
		{"a statement that moved", map[string]string{"a.sql": "LOCK t", "sub/c.sql": lock, "policy": head + table + strings.Replace(listed, "a.sql", "sub/c.sql", 1)}, nil},
		{"a statement that moved and stayed", map[string]string{"sub/c.sql": lock, "policy": head + table + listed + strings.Replace(listed, "a.sql", "sub/c.sql", 1)},
			[]string{"policy SP902 SP104 pg_advisory_lock: the line is not in HEAD"}},
		{"a statement that moved and was copied", map[string]string{"a.sql": "LOCK t", "b.sql": lock, "c.sql": lock,
			"policy": head + table + strings.Replace(listed, "a.sql", "b.sql", 1) + strings.Replace(listed, "a.sql", "c.sql", 1)},
			[]string{"policy SP902 SP104 pg_advisory_lock: the line is not in HEAD"}},
		{"an allowance", map[string]string{"b.sql": "LOCK TABLE u", "policy": head + listed + table + "allow | SP103 | b.sql | - | why"},
			[]string{"policy SP902 allow [SP103] b.sql: the line is not in HEAD"}},
		{"a file that is not read", map[string]string{"b.sql": "LOCK TABLE u", "policy": head + listed + table + "allow | * | b.sql | - | why"},
			[]string{"policy SP902 allow * b.sql: the line is not in HEAD"}},
		{"a rule switched off", map[string]string{"policy": head + listed + table + "rule | SP102 | off | - | why"}, []string{"policy SP902 rule SP102 off: the line is not in HEAD"}},
		{"another file of approvals", map[string]string{"other.md": "| 7 | yes |", "policy": "approvals | other.md\n" + listed + table},
			[]string{"policy SP902 approvals: in HEAD lines are approved by rows.md, and not as freely as here"}},
		{"a rule switched on", map[string]string{"policy": head + listed + table + "rule | SP201 | refuse | - | why"}, nil},
	} {
		t.Run(c.title, func(t *testing.T) {
			p := setup(t)
			p.write(c.files)
			assert.ElementsMatch(t, c.want, p.check("HEAD"))
		})
	}
	t.Run("a base without a policy file", func(t *testing.T) {
		p := newProject(t, map[string]string{"a.sql": lock})
		p.git("init", "-q")
		p.git("add", ".")
		p.git("commit", "-q", "-m", "base")
		p.write(map[string]string{"policy": listed})
		assert.Equal(t, []string{"policy SP902 SP104 pg_advisory_lock: the line is not in HEAD"}, p.check("HEAD"))
	})
	t.Run("a policy file below the root of the repository", func(t *testing.T) {
		p := newProject(t, map[string]string{"sub/a.sql": lock, "sub/policy": listed})
		p.git("init", "-q")
		p.git("add", ".")
		p.git("commit", "-q", "-m", "base")
		p.dir = filepath.Join(p.dir, "sub")
		assert.Empty(t, p.check("HEAD"))
	})
}

// TestUnreadable: what cannot be read is a finding, never a file less.
func TestUnreadable(t *testing.T) {
	p := newProject(t, map[string]string{
		"binary.sql": "SELECT 1;\x00\x01", "utf16.sql": "\xff\xfeS\x00E\x00", "latin.sql": "SELECT '\xe4'", "broken.go": "package p\nfunc {",
		"bom.sql": "\xef\xbb\xbfSELECT 1", "empty.sql": "", "good.sql": "SELECT 1", "policy": "",
	})
	require.NoError(t, os.Symlink("nowhere.sql", filepath.Join(p.dir, "dangling.sql")))
	require.NoError(t, os.Symlink(p.dir, filepath.Join(p.dir, "folder.sql")))
	found := p.check("")
	require.Len(t, found, 6)
	for i, want := range []string{
		"binary.sql SP004 file: the file is binary: byte 9 is zero",
		"broken.go SP004 file: not Go: ",
		"dangling.sql SP004 file: no such file or directory",
		"folder.sql SP004 file: is a directory",
		"latin.sql SP004 file: the file is not valid UTF-8",
		"utf16.sql SP004 file: the file is in UTF-16",
	} {
		assert.True(t, strings.HasPrefix(found[i], want), found[i])
	}
}

// TestPlaces: findings stand where the word stands that they are about.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line, col  int
	}{
		{"a.sql", "SELECT 1;\n\n  -- comment\n  LOCK TABLE t;", 4, 3},
		{"a.sql", "SELECT 'äöü', pg_advisory_lock(1)", 1, 15},
		{"a.sql", "\xef\xbb\xbfLOCK TABLE t", 1, 4},
		{"a.sql", "SELECT 1 -- FOR UPDATE\nFROM t\n\tFOR UPDATE", 3, 2},
		{"a.sql", "CREATE TABLE t (\n  a int,\n  CONSTRAINT c CHECK (a > 0)\n)", 3, 3},
		{"a.sql", "DO $$\nBEGIN\n  IF true THEN\n    PERFORM 1,\n      pg_advisory_lock(1);\n  END IF;\nEND $$", 5, 7},
		{"a.sql", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $x$\n  SELECT 1;\n  LOCK TABLE t $x$", 3, 3},
		{"a.sql", "SELECT 1; SELECT 2 FROM; SELECT 3", 1, 24},
		{"a.sql", "\\set x 1\n\\i other.sql", 1, 1},
		{"a.go", "package p\n\nfunc f() {\n\tdb.Exec(`\n\t\tSELECT 1,\n\t\tpg_advisory_lock(1)`)\n}", 6, 3},
		{"a.go", "package p\n\nfunc f() {\n\tdb.Exec(\"SELECT 1, \" +\n\t\t\"pg_advisory_lock(1)\")\n}", 5, 4},
		{"a.go", "package p\n\nfunc f() {\n\tdb.Exec(\"SELECT\\t'\\u00e4', pg_advisory_lock(1)\")\n}", 4, 29},
		{"a.go", "package p\n\nconst q = `LOCK TABLE t`\n\nfunc f() { db.Exec(q) }", 3, 12},
	} {
		found := checkText(t, c.name, c.text, "")
		require.NotEmpty(t, found, c.text)
		assert.Equal(t, [2]int{c.line, c.col}, [2]int{found[0].Line, found[0].Column}, "%s\n%s", c.text, describe(found))
	}
}

// TestGoAcrossFiles: constants of other files and packages of the module, functions
// that hand SQL on, embedded files. A text of another file is found where it is used.
func TestGoAcrossFiles(t *testing.T) {
	p := newProject(t, map[string]string{
		"go.mod":        "module example.com/app\n",
		"a/a.go":        "package a\n\nimport \"example.com/app/sql\"\n\nfunc f() { db.Exec(sql.Lock); db.Exec(own) }\n",
		"a/b.go":        "package a\n\nconst own = \"LOCK TABLE own\"\n",
		"a/c.go":        "package a\n\nfunc g() { run(ctx, \"LOCK TABLE handed\"); h.twice(\"LOCK TABLE method\") }\n",
		"a/d.go":        "package a\n\nfunc run(ctx context.Context, q string) { db.ExecContext(ctx, q) }\n\nfunc (h *h) twice(q string) { run(ctx, q) }\n",
		"sql/sql.go":    "package sql\n\nconst Lock = \"LOCK TABLE \" + table\nconst table = \"other\"\n",
		"e/embed.go":    "package e\n\nimport _ \"embed\"\n\n//go:embed query.txt\nvar query string\n\n//go:embed help.txt\nvar help string\n\n//go:embed *.sql\nvar files embed.FS\n\nfunc f() { db.Exec(query); print(help) }\n",
		"e/query.txt":   "LOCK TABLE embedded",
		"e/once.sql":    "LOCK TABLE once",
		"e/help.txt":    "LOCK TABLE is forbidden",
		"policy":        "",
		"vendor/v/v.go": "package v\n\nfunc f() { db.Exec(\"LOCK TABLE vendored\") }\n",
	})
	assert.ElementsMatch(t, []string{
		"a/a.go SP103 other", "a/a.go SP103 own", "a/c.go SP103 handed", "a/c.go SP103 method", "e/query.txt SP103 embedded", "e/once.sql SP103 once",
	}, p.check(""))
}

// TestIgnored: what Git ignores is passed over, and said to be; what it keeps is read,
// whatever it is told to ignore.
func TestIgnored(t *testing.T) {
	p := newProject(t, map[string]string{
		"policy": "", "a.sql": "SELECT 1", "kept/a.sql": "LOCK TABLE kept", "fetched/deep/b.sql": "LOCK TABLE fetched", "built.sql": "LOCK TABLE built",
	})
	p.git("init", "-q")
	p.git("add", ".")
	p.git("rm", "-q", "--cached", "-r", "fetched", "built.sql")
	p.git("commit", "-q", "-m", "base")
	p.write(map[string]string{".gitignore": "/fetched/\n/built.sql\n/kept/\n"})
	assert.Equal(t, []string{"kept/a.sql SP103 kept"}, p.check(""))
	report, err := policy.Check(policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "policy")})
	require.NoError(t, err)
	assert.Subset(t, report.Skipped, []string{"built.sql", "fetched/"})
}

func TestSum(t *testing.T) {
	sum, err := os.ReadFile("../migrations/atlas.sum")
	require.NoError(t, err)
	migration := "20261130164122_initial.sql"
	text, err := os.ReadFile("../migrations/" + migration)
	require.NoError(t, err)
	files := map[string]string{"atlas.sum": string(sum), migration: string(text), "policy": "allow | SP101 | ** | - | not looked at here"}
	sums := func(change func(map[string]string)) (list []string) {
		p := newProject(t, files)
		changed := map[string]string{}
		change(changed)
		p.write(changed)
		for _, f := range p.check("") {
			if strings.Contains(f, "SP005") {
				list = append(list, f)
			}
		}
		return list
	}
	assert.Empty(t, sums(func(map[string]string) {}))
	assert.Equal(t, []string{"atlas.sum SP005 " + migration + ": this file or one before it was changed"},
		sums(func(f map[string]string) { f[migration] = string(text) + "\n" }))
	assert.Equal(t, []string{"atlas.sum SP005 20270101000000_more.sql: the file is not listed"},
		sums(func(f map[string]string) { f["20270101000000_more.sql"] = "SELECT 1" }))
	assert.Equal(t, []string{"atlas.sum SP005 20270101000000_gone.sql: the file is missing"},
		sums(func(f map[string]string) { f["atlas.sum"] = string(sum) + "20270101000000_gone.sql h1:x\n" }))
	assert.Equal(t, []string{"atlas.sum SP005 atlas.sum: the first line is not the hash of the others"},
		sums(func(f map[string]string) { f["atlas.sum"] = "h1:x\n" + strings.SplitN(string(sum), "\n", 2)[1] }))
}

func TestSARIF(t *testing.T) {
	p := newProject(t, map[string]string{"a b.sql": "SELECT 1;\n" + lock, "policy": "rule | SP104 | warn | - | here"})
	report, err := policy.Check(policy.Options{Paths: []string{p.dir}, Inventory: filepath.Join(p.dir, "policy")})
	require.NoError(t, err)
	assert.False(t, report.Refused(), "a warning does not fail")
	var out strings.Builder
	require.NoError(t, report.WriteSARIF(&out))
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct{ ID string }
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &log))
	assert.Equal(t, "2.1.0", log.Version)
	require.Len(t, log.Runs, 1)
	run := log.Runs[0]
	assert.Len(t, run.Tool.Driver.Rules, len(policy.Rules()))
	require.Len(t, run.Results, 1)
	result := run.Results[0]
	assert.Equal(t, "SP104", result.RuleID)
	assert.Equal(t, "SP104", run.Tool.Driver.Rules[result.RuleIndex].ID)
	assert.Equal(t, "warning", result.Level)
	assert.Contains(t, result.Message.Text, "pg_advisory_lock")
	where := result.Locations[0].PhysicalLocation
	assert.Equal(t, "a%20b.sql", where.ArtifactLocation.URI)
	assert.Equal(t, 2, where.Region.StartLine)
	assert.Equal(t, 8, where.Region.StartColumn)

	out.Reset()
	require.NoError(t, report.WriteJSON(&out))
	var back policy.Report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &back))
	assert.Equal(t, report.Findings, back.Findings)
	assert.Equal(t, "17", back.Grammar)
}
