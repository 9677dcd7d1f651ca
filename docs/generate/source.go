package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// source has the parsed Go files of a folder of the repository.
type source struct {
	root, folder string
	files        []*ast.File
}

func parseFolder(root, folder string) (source, error) {
	s := source{root: root, folder: folder}
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return s, fmt.Errorf("reading the fields: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return s, fmt.Errorf("reading the fields: %w", err)
		}
		s.files = append(s.files, file)
	}
	return s, nil
}

// find returns the definition of a type and its file; nil for types of other
// packages.
func (s source) find(name string) (ast.Expr, *ast.File) {
	for _, file := range s.files {
		for _, d := range file.Decls {
			types, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range types.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
					return t.Type, file
				}
			}
		}
	}
	return nil, nil
}
