package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// leftoversFile is the record of `make e2e-full FULL=-update`.
//
//go:embed leftovers.json
var leftoversFile []byte

// trial is one instance that started from an image with one leftover, as package
// e2e/join records it.
type trial struct {
	Rule, Case, FirstBoot, Result, Message string
	Paths, Leaks                           []string
}

// Note is what the page says about a trial in addition to its result.
func (t trial) Note() string {
	var notes []string
	if t.Message != "" {
		notes = append(notes, "`"+strings.ReplaceAll(t.Message, "`", "'")+"`")
	}
	if len(t.Leaks) == 1 {
		notes = append(notes, "1 file names the old cluster")
	} else if len(t.Leaks) > 1 {
		notes = append(notes, fmt.Sprintf("%d files name the old cluster", len(t.Leaks)))
	}
	return strings.Join(notes, "; ")
}

// leftover is what stayed in an image, and its two trials.
type leftover struct {
	Rule, Case   string
	AsAmazon     trial
	AsNodeConfig trial
}

// shown are the first paths, and the number of the others.
func shown(paths []string) string {
	const most = 3
	if len(paths) <= most {
		return code(paths)
	}
	return fmt.Sprintf("%s and %d more", code(paths[:most]), len(paths)-most)
}

// leftovers pairs the trials of each leftover, in the order of the record.
func leftovers() ([]leftover, error) {
	var trials []trial
	if err := json.Unmarshal(leftoversFile, &trials); err != nil {
		return nil, fmt.Errorf("reading leftovers.json: %w", err)
	}
	var list []leftover
	for _, t := range trials {
		i := slices.IndexFunc(list, func(l leftover) bool { return l.Rule == t.Rule && l.Case == t.Case })
		if i < 0 {
			i = len(list)
			list = append(list, leftover{Rule: t.Rule, Case: t.Case})
		}
		if t.FirstBoot == "NodeConfig" {
			list[i].AsNodeConfig = t
		} else {
			list[i].AsAmazon = t
		}
	}
	return list, nil
}

// exceptionsFile lists the checks of other programs that do not pass on a node.
// The tests of e2e/join fail on any other check, and on a listed one that passes.
//
//go:embed exceptions.json
var exceptionsFile []byte

// exception is a check that does not pass, or all whose names contain Name.
type exception struct{ Check, Name, Why string }

func exceptions(program string) ([]exception, error) {
	return rowsOf(exceptionsFile, "exceptions.json", program, func(e exception) string { return e.Check })
}

const schemaFile = "docs/reference/report.schema.json"

// reportSchema is the JSON Schema of plan.Report. Its descriptions are the doc
// comments of the types and fields.
func reportSchema(root string) (string, error) {
	enums := map[string][]any{"Command": {"provision", "scrub", "audit"}}
	var comments jsonschema.Reflector
	for _, folder := range []string{"plan", "host"} {
		s, err := parseFolder(root, folder)
		if err == nil {
			err = comments.AddGoComments("", filepath.Join(root, folder), jsonschema.WithFullComment())
		}
		if err != nil {
			return "", err
		}
		s.values(enums)
	}
	r := jsonschema.Reflector{
		LookupComment: func(t reflect.Type, field string) string {
			folder := filepath.Join(root, strings.TrimPrefix(t.PkgPath(), "github.com/eksnode/packer-plugin-eksnode/"))
			name := strings.TrimSuffix(folder+"."+t.Name()+"."+field, ".")
			return strings.Join(strings.Fields(comments.CommentMap[name]), " ")
		},
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if values := enums[t.Name()]; t.Kind() == reflect.String && values != nil {
				return &jsonschema.Schema{Type: "string", Enum: values}
			}
			return nil
		},
	}
	schema := r.Reflect(plan.Report{})
	schema.ID = "https://raw.githubusercontent.com/eksnode/packer-plugin-eksnode/main/" + schemaFile
	schema.Title = "Report of eksnode"
	for _, definition := range schema.Definitions {
		for p := definition.Properties.Oldest(); p != nil; p = p.Next() {
			if p.Value.Type == "integer" {
				p.Value.Minimum = "0"
			}
		}
	}
	report := schema.Definitions["Report"].Properties
	form, _ := report.Get("schema")
	form.Const = plan.Schema
	command, _ := report.Get("command")
	command.Enum = enums["Command"]
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the schema: %w", err)
	}
	return string(text) + "\n", nil
}

// values collects the values of a package's string types.
func (s source) values(enums map[string][]any) {
	for _, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if value, ok := n.(*ast.ValueSpec); ok {
				addValue(value, enums)
			}
			return true
		})
	}
}

func addValue(spec *ast.ValueSpec, enums map[string][]any) {
	kind, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != 1 {
		return
	}
	if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
		if value, err := strconv.Unquote(literal.Value); err == nil {
			enums[kind.Name] = append(enums[kind.Name], value)
		}
	}
}
