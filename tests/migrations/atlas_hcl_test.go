package migrations_test

import (
	"net/url"
	"testing"

	"ariga.io/atlas/schemahcl"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

// atlas.hcl is evaluated as the CLI does it, with the attributes that the community
// build reads.
func TestAtlasHCL(t *testing.T) {
	type migration struct {
		Dir         string `spec:"dir"`
		ExecOrder   string `spec:"exec_order"`
		LockTimeout string `spec:"lock_timeout"`
		schemahcl.DefaultExtension
	}
	type env struct {
		Name      string     `spec:"name,name"`
		URL       string     `spec:"url"`
		Dev       string     `spec:"dev"`
		Migration *migration `spec:"migration"`
		schemahcl.DefaultExtension
	}
	var project struct {
		Envs []*env `spec:"env"`
		schemahcl.DefaultExtension
	}
	hcl := schemahcl.New(schemahcl.WithScopedEnums("env.migration.exec_order", "LINEAR", "LINEAR_SKIP", "NON_LINEAR"))
	err := hcl.EvalFiles([]string{"../../atlas.hcl"}, &project, map[string]cty.Value{
		"url": cty.StringVal("postgres://u:p@host:5432/db?sslmode=disable&search_path=elsewhere"),
	})
	require.NoError(t, err)
	require.Len(t, project.Envs, 2)
	for _, e := range project.Envs {
		require.Empty(t, e.Extra.Attrs, "env %s has an attribute that the CLI does not know", e.Name)
		require.Equal(t, "file://migrations", e.Migration.Dir)
		require.Equal(t, "LINEAR", e.Migration.ExecOrder)
		require.Equal(t, "10s", e.Migration.LockTimeout)
		require.Empty(t, e.Migration.Extra.Attrs)
		u, err := url.Parse(e.URL)
		require.NoError(t, err)
		require.Equal(t, []string{"runlane"}, u.Query()["search_path"], "the ledger goes where the search path points")
		require.Equal(t, "disable", u.Query().Get("sslmode"))
	}
	require.Equal(t, "local", project.Envs[0].Name)
	require.NotEmpty(t, project.Envs[0].Dev)
	require.Equal(t, "deploy", project.Envs[1].Name)

	require.Error(t, hcl.EvalFiles([]string{"../../atlas.hcl"}, &project, nil), "url has no default")
}
