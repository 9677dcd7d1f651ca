package main

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// field is one option: a field of a component's HCL block, or a flag.
type field struct{ Name, Type, Text string }

// fieldLists are a component's fields.
type fieldLists struct{ Required, Optional []field }

// all are the fields of both lists.
func (l fieldLists) all() []field {
	return append(l.Required[:len(l.Required):len(l.Required)], l.Optional...)
}

// readFields reads the doc comments of the struct Config in plugin/COMPONENT
// and of the structs that it embeds.
func readFields(root, component string) (fieldLists, error) {
	return readStruct(root, path.Join("plugin", component), "Config")
}

// readStruct reads the doc comments of a struct in a folder of the repository
// and of the structs that it embeds, wherever in the module they are.
func readStruct(root, folder, name string) (fieldLists, error) {
	var lists fieldLists
	s, err := parseFolder(root, folder)
	if err != nil {
		return lists, err
	}
	found, file := s.find(name)
	config, isStruct := found.(*ast.StructType)
	if !isStruct {
		return lists, fmt.Errorf("reading the fields: %s has no struct %s", folder, name)
	}
	var errs []error
	for _, f := range config.Fields.List {
		tag := tagOf(f)
		if len(f.Names) == 0 {
			more, err := s.embedded(file, f, tag)
			errs = append(errs, err)
			lists.Required = append(lists.Required, more.Required...)
			lists.Optional = append(lists.Optional, more.Optional...)
			continue
		}
		if tag.Get("mapstructure") == "-" || !f.Names[0].IsExported() {
			continue // no template can set it
		}
		one, err := s.readField(f, tag)
		errs = append(errs, err)
		if tag.Get("required") == "true" {
			lists.Required = append(lists.Required, one)
		} else {
			lists.Optional = append(lists.Optional, one)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return lists, fmt.Errorf("reading the fields of %s in %s: %w", name, folder, err)
	}
	return lists, nil
}

// embedded reads an embedded struct of this module. Those of other modules are
// Packer's own fields.
func (s source) embedded(file *ast.File, f *ast.Field, tag reflect.StructTag) (fieldLists, error) {
	if tag.Get("mapstructure") != ",squash" {
		return fieldLists{}, fmt.Errorf("%s: an embedded struct needs the tag mapstructure:\",squash\"", typeName(f.Type))
	}
	other, isOther := f.Type.(*ast.SelectorExpr)
	if !isOther {
		return readStruct(s.root, s.folder, typeName(f.Type))
	}
	folder, ours := s.folderOf(file, typeName(other.X))
	if !ours {
		return fieldLists{}, nil
	}
	return readStruct(s.root, folder, other.Sel.Name)
}

// module is this repository's path in Go.
const module = "github.com/eksnode/packer-plugin-eksnode/"

// folderOf is the folder of a package by the name that a file calls it, and
// whether it is one of this module.
func (s source) folderOf(file *ast.File, name string) (string, bool) {
	for _, i := range file.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil || path.Base(imported) != name && (i.Name == nil || i.Name.Name != name) {
			continue
		}
		folder, ours := strings.CutPrefix(imported, module)
		return folder, ours
	}
	folder := path.Join("plugin", name) // of a file that imports nothing
	_, err := os.Stat(filepath.Join(s.root, folder))
	return folder, err == nil
}

// words are the HCL names of the types that fields have.
var words = map[string]string{
	"string":            "string",
	"bool":              "bool",
	"int":               "number",
	"[]string":          "list of strings",
	"map[string]string": "map of strings",
}

func (s source) readField(f *ast.Field, tag reflect.StructTag) (field, error) {
	name := tag.Get("mapstructure")
	if name == "" {
		return field{}, fmt.Errorf("%s: it has no tag mapstructure", f.Names[0].Name)
	}
	kind := typeName(f.Type)
	if named, _ := s.find(kind); named != nil {
		kind = typeName(named)
	}
	word, ok := words[kind]
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
