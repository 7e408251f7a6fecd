package operator_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// node is one node of a plan that was executed.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Recheck  float64 `json:"Rows Removed by Index Recheck"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []node
}

// cost is what executing a plan took.
type cost struct {
	rows    int             // that scans returned or removed
	blocks  int             // of tables and indexes
	indexes map[string]bool // that were scanned
	scanned map[string]bool // tables that were scanned without one
	text    string
}

func (c *cost) add(n node) {
	if strings.HasSuffix(n.Type, "Scan") && strings.HasPrefix(n.Relation, "runlane_") {
		c.rows += int((n.Rows + n.Filtered + n.Recheck) * n.Loops)
		if n.Index == "" && n.Type != "Bitmap Heap Scan" {
			c.scanned[n.Relation] = true
		}
	}
	if n.Index != "" {
		c.indexes[n.Index] = true
	}
	for _, child := range n.Plans {
		c.add(child)
	}
}

// Plans are made for the values at hand or, once the server thinks that as good, for
// any values.
var planModes = []string{"force_custom_plan", "force_generic_plan"}

// explain executes a statement that the driver sent, as the mode says, and walks the
// whole plan.
func (s *store) explain(mode string, statement sent) cost {
	s.Helper()
	conn, err := s.side.Acquire(s.Context())
	require.NoError(s, err)
	defer conn.Release()
	_, err = conn.Exec(s.Context(), "SET plan_cache_mode = "+mode)
	require.NoError(s, err)
	prepared, err := conn.Conn().Prepare(s.Context(), "explained", statement.sql)
	require.NoError(s, err, statement.sql)
	defer func() { require.NoError(s, conn.Conn().Deallocate(s.Context(), "explained")) }()
	require.Len(s, prepared.ParamOIDs, len(statement.args))
	holes := make([]string, len(statement.args))
	args := []any{pgx.QueryExecModeSimpleProtocol}
	for i, arg := range statement.args {
		holes[i] = fmt.Sprint("$", i+1)
		args = append(args, arg)
	}
	sql := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained"
	if len(holes) > 0 {
		sql += "(" + strings.Join(holes, ", ") + ")"
	}
	var text string
	require.NoError(s, conn.QueryRow(s.Context(), sql, args...).Scan(&text), statement.sql)
	var tree []struct{ Plan node }
	require.NoError(s, json.Unmarshal([]byte(text), &tree))
	c := cost{indexes: map[string]bool{}, scanned: map[string]bool{}, text: statement.sql + "\n" + text}
	c.add(tree[0].Plan)
	c.blocks = tree[0].Plan.Hit + tree[0].Plan.Read
	return c
}
