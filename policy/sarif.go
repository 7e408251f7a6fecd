package policy

import (
	"encoding/json"
	"io"
	"net/url"
)

// WriteSARIF prints a report in the Static Analysis Results Interchange Format 2.1.0.
func (r *Report) WriteSARIF(w io.Writer) error {
	driver := sarifDriver{
		Name: "sqlpolicy", InformationURI: "https://github.com/seed4391e180/runlane/blob/main/docs/policy.md",
		Properties: map[string]string{"grammar": "PostgreSQL " + r.Grammar}, Rules: []sarifRule{},
	}
	index := map[string]int{}
	for i, rule := range Rules() {
		index[string(rule.Code)] = i
		driver.Rules = append(driver.Rules, sarifRule{
			ID: string(rule.Code), Name: rule.Name, Short: sarifText{rule.Name}, Full: sarifText{rule.Why}, Help: sarifText{rule.Instead},
		})
	}
	results := []sarifResult{}
	for _, f := range r.Findings {
		level := "error"
		if f.Level == "warn" {
			level = "warning"
		}
		message := f.Object + ": "
		if f.Note != "" {
			message += f.Note + ". "
		}
		result := sarifResult{RuleID: f.Code, RuleIndex: index[f.Code], Level: level, Message: sarifText{message + f.Why + " Instead: " + f.Instead}}
		var at sarifLocation
		at.Physical.Artifact.URI = (&url.URL{Path: f.File}).EscapedPath()
		at.Physical.Region.StartLine, at.Physical.Region.StartColumn = f.Line, f.Column
		result.Locations = []sarifLocation{at}
		results = append(results, result)
	}
	log := sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: results}},
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(log)
}

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool     `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string            `json:"name"`
	InformationURI string            `json:"informationUri"`
	Properties     map[string]string `json:"properties"`
	Rules          []sarifRule       `json:"rules"`
}

type sarifRule struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Short sarifText `json:"shortDescription"`
	Full  sarifText `json:"fullDescription"`
	Help  sarifText `json:"help"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			StartLine   int `json:"startLine"`
			StartColumn int `json:"startColumn"`
		} `json:"region"`
	} `json:"physicalLocation"`
}
