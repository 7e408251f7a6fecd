package entext

import (
	"testing"

	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/entc"
	"entgo.io/ent/entc/gen"
	"github.com/stretchr/testify/require"
)

func TestPrimaryKey(t *testing.T) {
	key := func(columns ...string) *gen.Type {
		return &gen.Type{Name: "Thing", Annotations: gen.Annotations{primaryKeyName: PrimaryKey(columns...)}}
	}
	columns, err := primaryKey(key("b", "a"))
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a"}, columns)
	_, err = primaryKey(key())
	require.ErrorContains(t, err, "empty primary key")
	_, err = primaryKey(&gen.Type{Name: "Thing"})
	require.ErrorContains(t, err, "Thing declares no primary key")

	table := schema.NewTable("things").
		AddColumn(&schema.Column{Name: "a"}).
		AddColumn(&schema.Column{Name: "b"}).
		AddColumn(&schema.Column{Name: "c", Nullable: true})
	require.NoError(t, setPrimaryKey(table, []string{"b", "a"}))
	require.Equal(t, []*schema.Column{table.Columns[1], table.Columns[0]}, table.PrimaryKey)
	require.ErrorContains(t, setPrimaryKey(table, []string{"x"}), `unknown column "x"`)
	require.ErrorContains(t, setPrimaryKey(table, []string{"a", "c"}), `"c" may be null`)
}

// ent's own command ends with one sentence that says what to run instead.
func TestPlainGenerateSaysWhatToRun(t *testing.T) {
	t.Setenv(loadingEnv, "")
	cfg, err := config()
	require.NoError(t, err)
	_, err = entc.LoadGraph("../schema", cfg)
	require.EqualError(t, err, "entc/load: these schemas have composite keys, which `ent generate` does not know: run `go generate ./ent` instead\nexit status 1")
}

func TestGenerateRefusesAnUnknownSchema(t *testing.T) {
	err := only([]string{"Run", "Rum"})(nil).Generate(&gen.Graph{Nodes: []*gen.Type{{Name: "Run"}}})
	require.EqualError(t, err, "no schema is named Rum")
}
