package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
)

// pager reads pages and writes them.
type pager[T any] struct {
	read  func(ctx context.Context, cursor string) (items []T, next string, err error)
	item  func(T) any // for programs
	table func() *show.Table
	row   func(T, show.Clock) []string
}

// text is items in the form that the command line asks for; more is what it says below
// a table.
func (p *pager[T]) text(c *command, items []T, d document, more string) (string, error) {
	if c.output == asTable {
		return p.rows(c, p.table(), true, items) + more, nil
	}
	shown := p.shown(items)
	if c.output == asNDJSON {
		return lines(shown)
	}
	d.Items = shown
	return show.Document(d)
}

func (p *pager[T]) shown(items []T) []any {
	shown := make([]any, len(items))
	for i, item := range items {
		shown[i] = p.item(item)
	}
	return shown
}

func (p *pager[T]) rows(c *command, table *show.Table, titled bool, items []T) string {
	rows := make([][]string, len(items))
	clock := c.clock()
	for i, item := range items {
		rows[i] = p.row(item, clock)
	}
	return table.Text(c.Screen(), titled, rows)
}

// everything reads all pages from the cursor on. As ndjson each is written when it
// has been read.
func (p *pager[T]) everything(ctx context.Context, cmd *cobra.Command, c *command, cursor string) (all []T, err error) {
	for {
		items, next, err := p.read(ctx, cursor)
		if err != nil {
			return nil, err
		}
		if c.output != asNDJSON {
			all = append(all, items...)
		} else if err := p.write(cmd, items); err != nil {
			return nil, err
		}
		if next == "" {
			return all, nil
		}
		cursor = next
	}
}

func (p *pager[T]) write(cmd *cobra.Command, items []T) error {
	text, err := lines(p.shown(items))
	if err != nil {
		return err
	}
	return write(cmd, text)
}
