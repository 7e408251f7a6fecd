package report

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Write stores the report in a folder: latest.json, table.md and chart.svg.
func Write(folder string, h Header, rows []*Row) error {
	for _, r := range rows {
		if err := r.Check(); err != nil {
			return err
		}
	}
	list, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"latest.json": string(list) + "\n",
		"table.md":    Table(h, rows),
		"chart.svg":   Chart(rows),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
