package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// field is one field of a component's HCL block.
type field struct{ Name, Type, Text string }

// fieldLists are a component's fields.
type fieldLists struct{ Required, Optional []field }

// readFields reads the doc comments of the struct Config in
// plugin/COMPONENT/config.go and of the Config that it takes in from another
// folder of plugin.
func readFields(root, component string) (fieldLists, error) {
	var lists fieldLists
	name := filepath.Join(root, "plugin", component, "config.go")
	config, err := configStruct(name)
	if err != nil {
		return lists, err
	}
	var errs []error
	for _, f := range config.Fields.List {
		tag := tagOf(f)
		switch {
		case len(f.Names) == 0 && strings.HasSuffix(typeName(f.Type), ".Config"):
			more, err := readFields(root, strings.TrimSuffix(typeName(f.Type), ".Config"))
			errs = append(errs, err)
			lists.Required = append(lists.Required, more.Required...)
			lists.Optional = append(lists.Optional, more.Optional...)
		case len(f.Names) == 0, tag.Get("mapstructure") == "":
			// Packer's own fields, and what no template can set.
		default:
			one, err := readField(f, tag)
			errs = append(errs, err)
			if tag.Get("required") == "true" {
				lists.Required = append(lists.Required, one)
			} else {
				lists.Optional = append(lists.Optional, one)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return lists, fmt.Errorf("reading the fields in %s: %w", name, err)
	}
	return lists, nil
}

func configStruct(name string) (*ast.StructType, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("reading the fields: %w", err)
	}
	var found *ast.StructType
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == "Config" {
			found, _ = spec.Type.(*ast.StructType)
		}
		return found == nil
	})
	if found == nil {
		return nil, fmt.Errorf("reading the fields: %s has no struct Config", name)
	}
	return found, nil
}

// words are the HCL names of the types that fields have.
var words = map[string]string{
	"string":            "string",
	"bool":              "bool",
	"int":               "number",
	"[]string":          "list of strings",
	"map[string]string": "map of strings",
}

func readField(f *ast.Field, tag reflect.StructTag) (field, error) {
	name := tag.Get("mapstructure")
	word, ok := words[typeName(f.Type)]
	if !ok {
		return field{}, fmt.Errorf("%s: the type %s has no word in docs/generate", name, typeName(f.Type))
	}
	text := strings.Join(strings.Fields(f.Doc.Text()), " ")
	if text == "" {
		return field{}, fmt.Errorf("%s: it has no doc comment", name)
	}
	return field{Name: name, Type: word, Text: text}, nil
}

func tagOf(f *ast.Field) reflect.StructTag {
	if f.Tag == nil {
		return ""
	}
	text, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return "" // the file has been parsed, so its literals are well formed
	}
	return reflect.StructTag(text)
}

// typeName is a field's type as the source writes it.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	case *ast.ArrayType:
		return "[]" + typeName(e.Elt)
	case *ast.MapType:
		return "map[" + typeName(e.Key) + "]" + typeName(e.Value)
	default:
		return fmt.Sprintf("%T", e)
	}
}
