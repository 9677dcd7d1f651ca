// Command generate writes limits.txt from the table that the VPC resource
// controller publishes as Go source. The source is parsed, not imported: its
// module would bring half of Kubernetes into go.mod.
//
//	go generate ./bootstrap/internal/instance
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	module  = "github.com/aws/amazon-vpc-resource-controller-k8s"
	version = "v1.8.2"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal("generating limits.txt: ", err)
	}
}

func run() error {
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	if err != nil {
		return err
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(out, &at); err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(at.Dir, "pkg/aws/vpc/limits.go"), nil, 0)
	if err != nil {
		return err
	}
	types := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isText := kv.Key.(*ast.BasicLit)
		value, isStruct := kv.Value.(*ast.CompositeLit)
		if !isText || !isStruct {
			return true
		}
		name, err := strconv.Unquote(key.Value)
		if err == nil {
			pair := fmt.Sprintf("%d %d", defaultENIs(value), number(value, "IPv4PerInterface"))
			types[pair] = append(types[pair], name)
		}
		return false
	})
	if len(types) < 10 {
		return fmt.Errorf("%s %s has changed its form", module, version)
	}
	return os.WriteFile("limits.txt", []byte(text(types)), 0o644)
}

// defaultENIs is how many interfaces the default network card takes.
func defaultENIs(limits *ast.CompositeLit) int64 {
	card := number(limits, "DefaultNetworkCardIndex")
	cards := field(limits, "NetworkCards").(*ast.CompositeLit)
	for _, c := range cards.Elts {
		if c := c.(*ast.CompositeLit); number(c, "NetworkCardIndex") == card {
			return number(c, "MaximumNetworkInterfaces")
		}
	}
	return number(limits, "Interface")
}

func field(of *ast.CompositeLit, name string) ast.Expr {
	for _, e := range of.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == name {
			return kv.Value
		}
	}
	return nil
}

func number(of *ast.CompositeLit, name string) int64 {
	n, err := strconv.ParseInt(field(of, name).(*ast.BasicLit).Value, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func text(types map[string][]string) string {
	var lines []string
	for pair, names := range types {
		slices.Sort(names)
		lines = append(lines, pair+" "+strings.Join(names, " "))
	}
	slices.Sort(lines)
	return "# Generated from " + module + " " + version + " by bootstrap/internal/instance/generate. DO NOT EDIT.\n" +
		"# Interfaces of the default network card, IPv4 addresses per interface, instance types.\n" +
		strings.Join(lines, "\n") + "\n"
}
