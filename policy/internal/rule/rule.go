// Package rule lists what the gate looks for: each rule with a stable code, why it
// is refused and what to do instead.
package rule

import "slices"

// A Code names a rule, for ever: inventories and suppressions of other tools hold it.
type Code string

// The rules of reading: what could not be judged.
const (
	Unparsed   Code = "SP001"
	Meta       Code = "SP002"
	Template   Code = "SP003"
	Unreadable Code = "SP004"
	Sum        Code = "SP005"
	Dynamic    Code = "SP006"
)

// The rules that refuse.
const (
	Check        Code = "SP101"
	Trigger      Code = "SP102"
	LockTable    Code = "SP103"
	Advisory     Code = "SP104"
	Serializable Code = "SP105"
	RowLock      Code = "SP106"
)

// The rules that a project turns on.
const (
	WorkTable  Code = "SP201"
	OwnerKey   Code = "SP202"
	Claim      Code = "SP203"
	Notify     Code = "SP204"
	Recomputed Code = "SP205"
)

// The rules about the inventory.
const (
	Stale      Code = "SP901"
	Grown      Code = "SP902"
	Unapproved Code = "SP903"
)

// A Level says what a finding of a rule means.
type Level string

// Refuse fails the check, Warn is printed and does not, Off is not looked for.
const (
	Refuse Level = "refuse"
	Warn   Level = "warn"
	Off    Level = "off"
)

// A Rule is one thing that the gate looks for.
type Rule struct {
	Code    Code
	Name    string
	Level   Level // unless the policy file says otherwise
	Why     string
	Instead string
}

var all = []Rule{
	{Unparsed, "does-not-parse", Refuse,
		"The grammar does not accept this text, so nothing in it was judged.",
		"Correct it; if it is another dialect or a newer PostgreSQL's syntax, allow the file in the policy file."},
	{Meta, "psql-command", Refuse,
		"This is a command or a variable of psql: what it runs or inserts is not in the file.",
		"Use plain SQL; a file that psql includes is judged if it lies below the given paths."},
	{Template, "template", Refuse,
		"The text has holes: what they are filled with was not judged.",
		"Declare in the policy file what the holes stand for (template lines), or check the rendered text."},
	{Unreadable, "not-readable", Refuse,
		"The file could not be read as text, so nothing in it was judged.",
		"Save it as UTF-8 text, or allow the file in the policy file if it is not SQL."},
	{Sum, "migration-sum", Refuse,
		"The migrations are not those that atlas.sum vouches for.",
		"Run `atlas migrate hash`, or restore the file that was changed."},
	{Dynamic, "not-constant", Off,
		"The statement is put together when the program runs, so it was not judged.",
		"Use constant SQL with parameters; mark constant fragments with //sql."},

	{Check, "check-expression", Refuse,
		"A CHECK expression is a value rule in the database; value rules have one owner, the application's parser.",
		"Parse the value before the write, in the layer every caller shares; keep keys, NOT NULL, UNIQUE and EXCLUDE in the database."},
	{Trigger, "trigger", Refuse,
		"A trigger is logic that no caller sees.",
		"Write the derived value where its input is written, in the same transaction, through one function; slow work becomes a job."},
	{LockTable, "lock-table", Refuse,
		"LOCK TABLE is a lock taken as a step of its own, to coordinate later steps.",
		"Make the action one statement whose WHERE clause or a constraint re-asserts the facts it depends on."},
	{Advisory, "advisory-lock", Refuse,
		"An advisory lock guards nothing but what everybody remembers to guard with it.",
		"Make the action one statement; let a unique index, ON CONFLICT or a conditional UPDATE decide who wins."},
	{Serializable, "serializable", Refuse,
		"SERIALIZABLE makes every caller retry and hides which fact is protected.",
		"Hold the invariant in a constraint, or keep its data on one row and change it with a conditional UPDATE."},
	{RowLock, "row-lock", Refuse,
		"The statement locks rows and does no work: they stay locked while the application goes on.",
		"Put the locking SELECT into the statement that writes: WITH next AS (SELECT … FOR UPDATE SKIP LOCKED) UPDATE … FROM next."},

	{WorkTable, "work-table", Off,
		"The table tracks pending work beside the state that the work is about.",
		"Enqueue a job in the transaction of the write, or derive the pending work from state."},
	{OwnerKey, "owner-key", Off,
		"The foreign key does not carry the owner, so a row can point at another owner's parent.",
		"Make the key compound: FOREIGN KEY (owner, parent) REFERENCES parents (owner, id)."},
	{Claim, "claim", Off,
		"The claim is more than one statement: two workers can take the same row, or one holds it while it decides.",
		"WITH next AS (SELECT … LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE … FROM next … RETURNING."},
	{Notify, "notify-alone", Off,
		"The notification is not sent by the transaction that writes: it can arrive before the row, or without it.",
		"Send pg_notify in the transaction that writes; the poll guarantees the work."},
	{Recomputed, "recomputed", Off,
		"The value is recomputed from other rows: the snapshot can miss what a concurrent writer adds.",
		"Change it from its own row, as in n = n + 1 or GREATEST(last, $1), or recompute it in a job keyed by the record."},

	{Stale, "stale-line", Refuse,
		"The line lists what is not there.",
		"Delete the line, or lower its count: the inventory only shrinks."},
	{Grown, "added-line", Refuse,
		"The line is not in the base revision: the inventory only shrinks.",
		"Restructure the SQL and delete the line; where the policy file names a file of approvals, name the approving row in the line."},
	{Unapproved, "no-approval", Refuse,
		"The line names an approval that does not exist.",
		"Name the number of a row of the file of approvals."},
}

// All are the rules in the order of their codes.
func All() []Rule { return slices.Clone(all) }

// Of is the rule with a code.
func Of(code Code) (Rule, bool) {
	i := slices.IndexFunc(all, func(r Rule) bool { return r.Code == code })
	if i < 0 {
		return Rule{}, false
	}
	return all[i], true
}
