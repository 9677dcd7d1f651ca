//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// reportSchema compiles the published schema of reports.
func reportSchema() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return c.Compile("../../docs/reference/report.schema.json")
}

// validReport is the script command `report FILE...`. Each file must match the
// published schema. With "!", no file may match.
func validReport(schema *jsonschema.Schema) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		for _, name := range args {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(ts.ReadFile(name))))
			ts.Check(err)
			err = schema.Validate(value)
			if neg && err == nil {
				ts.Fatalf("%s matches the schema of reports", name)
			}
			if !neg && err != nil {
				ts.Fatalf("%s does not match the schema of reports: %v", name, err)
			}
		}
	}
}

// fullReport returns a report with a value in every field.
func fullReport() plan.Report {
	now := time.Unix(0, 0).UTC()
	gone := host.Removal{Entries: 1, Bytes: 4096}
	actions := []plan.Action{
		{Verb: plan.Remove, Target: "/x", Reason: "old", Removal: gone, Files: []plan.FileHash{{Path: "/x", Size: 1, SHA256: "0a"}}},
		{Verb: plan.Fetch, Target: "/usr/bin/kubelet", Reason: "not installed", Fetched: 10},
		{Verb: plan.Install, Target: "runc", Reason: "container runtime", Packages: []string{"runc"}},
	}
	findings := []plan.Finding{{Target: "/y", Reason: "unknown"}}
	r := plan.Begun("scrub", "0.1.0", "/", now)
	r.Build, r.Finished = "null.x", now
	r.Machine = plan.Machine{Distro: "debian", Version: "12", Arch: "amd64", Root: "/"}
	planned := []plan.Planned{{Item: "b", Phase: "state", Actions: actions, Findings: findings, Error: "b: no"}}
	checks := []plan.Check{
		{Item: "a", Phase: "state", Outcome: plan.Passed}, {Item: "b", Phase: "state", Outcome: plan.Unchecked, Reason: "b: no"},
		{Item: "c", Phase: "state", Outcome: plan.Found}, {Item: "d", Phase: "state", Outcome: plan.LeftOut, Reason: "left out"},
		{Item: "e", Phase: "state", Outcome: plan.NotApplicable, Reason: "no disk"},
	}
	r.Audited(planned, checks)
	r.Rules = checks
	var outcomes []plan.Outcome
	for _, s := range []plan.Status{plan.Done, plan.Unchanged, plan.Failed, plan.Skipped} {
		outcomes = append(outcomes, plan.Outcome{Item: "a", Phase: "state", Status: s, Actions: actions, Findings: findings, Error: "x", Milliseconds: 7})
	}
	r.Applied(outcomes, errors.New("x"))
	r.Concluded(planned, checks, true)
	r.Image = &plan.Contents{
		Kubernetes: "1.34.4", Components: []plan.Component{{Name: "kubelet", Version: "1.34.4", Origin: plan.FromDownload, Bytes: 10}},
		Packages: []plan.Package{{Name: "runc", Version: "1", Added: true}}, Images: []plan.ImageContents{{Name: "pause", Digest: "sha256:0a", Bytes: 1}},
	}
	r.Omitted = 1
	return r
}

// The schema accepts a report with all fields and refuses reports with one mistake.
func TestTheSchemaRefusesWrongReports(t *testing.T) {
	schema, err := reportSchema()
	require.NoError(t, err)
	decoded := func() map[string]any {
		text, err := plan.EncodeJSON(fullReport())
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		return value.(map[string]any)
	}
	require.NoError(t, schema.Validate(decoded()))
	for name, wrong := range map[string]func(map[string]any){
		"another schema version":   func(r map[string]any) { r["schema"] = "eksnode.report/v2" },
		"no result":                func(r map[string]any) { delete(r, "result") },
		"an unknown result":        func(r map[string]any) { r["result"] = "fine" },
		"an unknown command":       func(r map[string]any) { r["command"] = "join" },
		"an unknown field":         func(r map[string]any) { r["resutl"] = "ok" },
		"a number as text":         func(r map[string]any) { r["totals"].(map[string]any)["fetched"] = "10" },
		"a negative number":        func(r map[string]any) { r["totals"].(map[string]any)["fetched"] = json.Number("-1") },
		"no fetched bytes":         func(r map[string]any) { delete(r["totals"].(map[string]any), "fetched") },
		"a time as a number":       func(r map[string]any) { r["started"] = json.Number("7") },
		"an invalid time":          func(r map[string]any) { r["started"] = "yesterday" },
		"an unknown verb":          func(r map[string]any) { at(r, "outcomes", "actions")["verb"] = "delete" },
		"an unknown status":        func(r map[string]any) { at(r, "outcomes")["status"] = "ok" },
		"an unknown outcome":       func(r map[string]any) { at(r, "rules")["outcome"] = "ok" },
		"a rule without outcome":   func(r map[string]any) { delete(at(r, "rules"), "outcome") },
		"a finding without reason": func(r map[string]any) { delete(at(r, "outcomes", "findings"), "reason") },
		"outcomes as an object":    func(r map[string]any) { r["outcomes"] = map[string]any{} },
		"no machine":               func(r map[string]any) { delete(r, "machine") },
	} {
		t.Run(name, func(t *testing.T) {
			r := decoded()
			wrong(r)
			assert.Error(t, schema.Validate(r))
		})
	}
}

// at returns the first element of a list, or of nested lists.
func at(r map[string]any, lists ...string) map[string]any {
	for _, name := range lists {
		r = r[name].([]any)[0].(map[string]any)
	}
	return r
}
