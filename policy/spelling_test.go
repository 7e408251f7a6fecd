package policy_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/policy/internal/inspect"
	"github.com/seed4391e180/runlane/policy/internal/lex"
)

// TestSpellings: whatever is refused is refused with other space, comments and case,
// and within a DO block that executes it. What passes goes on to pass.
func TestSpellings(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/SP1*.txt")
	require.NoError(t, err)
	var texts []string
	for _, file := range files {
		for _, s := range shapes(t, file) {
			if !s.golang {
				texts = append(texts, s.text)
			}
		}
	}
	require.Greater(t, len(texts), 100)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(t, "text")
		want := objects(inspect.Text(text))
		respelt := respell(t, text)
		if got := objects(inspect.Text(respelt)); got != want {
			t.Fatalf("want %s, got %s for\n%s", want, got, respelt)
		}
		statements, _ := lex.Split(text)
		var block strings.Builder
		for _, s := range statements {
			fmt.Fprintf(&block, "EXECUTE %s;\n", "$outer$"+s.Text+"$outer$")
		}
		executed := "DO $block$ BEGIN\n" + block.String() + "END $block$"
		if got := objects(inspect.Text(executed)); got != want {
			t.Fatalf("want %s, got %s for\n%s", want, got, executed)
		}
	})
}

// objects are the codes and objects of what a text holds.
func objects(r inspect.Result) string {
	var list []string
	for _, h := range r.Hits {
		if h.Code < "SP2" {
			list = append(list, string(h.Code)+" "+h.Object)
		}
	}
	return strings.Join(list, ", ")
}

// respell changes what has no meaning: the space between tokens, and the case of
// words outside of quotation.
func respell(t *rapid.T, text string) string {
	var out strings.Builder
	end := 0
	for i, token := range lex.Tokens(text) {
		if token.Start > end && i > 0 {
			spaces := []string{" ", "\n", "\t\r\n ", " -- ; ' \"\n", " /* ; /* $$ */ ' */ "}
			if strings.Contains(text[end:token.Start], "\n") { // literals on two lines are one
				spaces = []string{"\n", " -- x\n"}
			}
			out.WriteString(rapid.SampledFrom(spaces).Draw(t, "space"))
		}
		word := token.Text(text)
		if token.Kind == lex.Word {
			word = rapid.SampledFrom([]string{strings.ToLower(word), strings.ToUpper(word), word}).Draw(t, "word")
		}
		out.WriteString(word)
		end = token.End
	}
	return out.String()
}
