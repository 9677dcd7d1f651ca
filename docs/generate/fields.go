package main

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// field is an option: a field of a component's HCL block, or a flag.
type field struct{ Name, Type, Text string }

type fieldLists struct{ Required, Optional []field }

func (l fieldLists) all() []field {
	return append(l.Required[:len(l.Required):len(l.Required)], l.Optional...)
}

// readFields reads the doc comments of the struct Config in plugin/COMPONENT
// and of its embedded structs, without the named fields.
func readFields(root, component string, without ...string) (fieldLists, error) {
	lists, err := readStruct(root, path.Join("plugin", component), "Config")
	omitted := func(f field) bool { return slices.Contains(without, f.Name) }
	return fieldLists{slices.DeleteFunc(lists.Required, omitted), slices.DeleteFunc(lists.Optional, omitted)}, err
}

// readStruct reads the doc comments of a struct in a folder of the repository,
// and of its embedded structs anywhere in the module.
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
			continue // not settable in HCL
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

// embedded reads an embedded struct of this module. Structs of other modules
// have Packer's own fields, which are left out.
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

// module is the Go module path of this repository.
const module = "github.com/eksnode/packer-plugin-eksnode/"

// folderOf finds the folder of a package by its name in a file, and reports
// whether the package belongs to this module.
func (s source) folderOf(file *ast.File, name string) (string, bool) {
	for _, i := range file.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil || path.Base(imported) != name && (i.Name == nil || i.Name.Name != name) {
			continue
		}
		folder, ours := strings.CutPrefix(imported, module)
		return folder, ours
	}
	folder := path.Join("plugin", name) // for files without imports
	_, err := os.Stat(filepath.Join(s.root, folder))
	return folder, err == nil
}

// words are the names of field types in HCL.
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
		return field{}, fmt.Errorf("%s: the tag mapstructure is missing", f.Names[0].Name)
	}
	kind := typeName(f.Type)
	if named, _ := s.find(kind); named != nil {
		kind = typeName(named)
	}
	word, ok := words[kind]
	if !ok {
		return field{}, fmt.Errorf("%s: docs/generate has no name for the type %s", name, typeName(f.Type))
	}
	text := strings.Join(strings.Fields(f.Doc.Text()), " ")
	if text == "" {
		return field{}, fmt.Errorf("%s: the doc comment is missing", name)
	}
	return field{Name: name, Type: word, Text: text}, nil
}

func tagOf(f *ast.Field) reflect.StructTag {
	if f.Tag == nil {
		return ""
	}
	text, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return "" // impossible: the parser accepted the file
	}
	return reflect.StructTag(text)
}

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

// helpFile has the help texts of flags that set a field of a spec.
const helpFile = "cmd/eksnode/optionhelp.txt"

// helpSources lists the packages with structs whose fields are flags.
var helpSources = []struct {
	folder  string
	structs []string
}{
	{"provisioner", []string{"Spec", "Local"}},
	{"scrub", []string{"Spec", "Local"}},
	{"internal/ami/amiimport", []string{"Spec"}},
	{"internal/build/diskbuild", []string{"Spec"}},
}

// optionHelp returns the help texts of flags, from the doc comments of the specs. Each line
// has a package, an option and its text.
func optionHelp(root string) (string, error) {
	var b strings.Builder
	b.WriteString("# Generated by docs/generate from the doc comments of the specs; DO NOT EDIT.\n")
	for _, s := range helpSources {
		var fields []field
		for _, name := range s.structs {
			lists, err := readStruct(root, s.folder, name)
			if err != nil {
				return "", err
			}
			fields = append(fields, lists.all()...)
		}
		for _, f := range fields {
			fmt.Fprintf(&b, "%s %s %s\n", path.Base(s.folder), f.Name, helpOf(f.Text, fields))
		}
	}
	return b.String(), nil
}

var quoted = regexp.MustCompile("`([^`]*)`")

// defaults matches the default in a doc comment.
var defaults = regexp.MustCompile(`Defaults to (\S.*?)\.( |$)`)

// helpOf returns the help text of a flag: the first sentence of a doc comment, in
// lower case, without the full stop, and with other options written as flags. The
// default follows in the form of package pflag.
func helpOf(text string, fields []field) string {
	first, _, _ := strings.Cut(text, ". ")
	first = strings.TrimSuffix(first, ".")
	if found := defaults.FindStringSubmatch(text); found != nil && found[1] != "`false`" {
		value := found[1]
		if quoted.FindString(value) == value {
			first += " (default \"" + strings.Trim(value, "`") + "\")"
		} else {
			first += " (default: " + value + ")"
		}
	}
	if letters := []rune(first); len(letters) > 1 && !unicode.IsUpper(letters[1]) {
		letters[0] = unicode.ToLower(letters[0])
		first = string(letters)
	}
	return quoted.ReplaceAllStringFunc(first, func(word string) string {
		word = strings.Trim(word, "`")
		if slices.ContainsFunc(fields, func(f field) bool { return f.Name == word }) {
			return "--" + strings.ReplaceAll(word, "_", "-")
		}
		return word
	})
}
