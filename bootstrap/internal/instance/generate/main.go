// Command generate writes limits.txt from the tables that AWS publishes as Go
// source. It parses the source, because importing those modules would add many
// dependencies of Kubernetes to go.mod.
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

// source is a table in a Go module.
type source struct {
	module, version, file string
	// enis, ips and cards are the names of the table's fields.
	enis, ips, cards string
}

// sources lists the tables. The first table wins for a type in both, because the VPC
// CNI assigns the addresses; the controller has more types.
var sources = []source{
	{"github.com/aws/amazon-vpc-cni-k8s", "v1.23.2", "pkg/vpc/vpc_ip_resource_limit.go", "ENILimit", "IPv4Limit",
		"NetworkCards"},
	{"github.com/aws/amazon-vpc-resource-controller-k8s", "v1.8.2", "pkg/aws/vpc/limits.go", "Interface",
		"IPv4PerInterface", "NetworkCards"},
}

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal("generating limits.txt: ", err)
	}
}

func run() error {
	limits := map[string]string{}
	for _, s := range sources {
		table, err := s.read()
		if err != nil {
			return err
		}
		for name, pair := range table {
			if _, known := limits[name]; !known {
				limits[name] = pair
			}
		}
	}
	types := map[string][]string{}
	for name, pair := range limits {
		types[pair] = append(types[pair], name)
	}
	return os.WriteFile("limits.txt", []byte(text(types)), 0o644)
}

// read downloads the module and reads its table: the numbers by instance type.
func (s source) read() (map[string]string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", s.module+"@"+s.version).Output()
	if err != nil {
		return nil, err
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(out, &at); err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(at.Dir, s.file), nil, 0)
	if err != nil {
		return nil, err
	}
	types := map[string]string{}
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
		if name, err := strconv.Unquote(key.Value); err == nil {
			types[name] = fmt.Sprintf("%d %d", s.defaultENIs(value), number(value, s.ips))
		}
		return false
	})
	if len(types) < 1000 {
		return nil, fmt.Errorf("%s %s has changed its form", s.module, s.version)
	}
	return types, nil
}

// defaultENIs returns the maximum number of interfaces on the default network card.
func (s source) defaultENIs(limits *ast.CompositeLit) int64 {
	card := number(limits, "DefaultNetworkCardIndex")
	cards := field(limits, s.cards).(*ast.CompositeLit)
	for _, c := range cards.Elts {
		if c := c.(*ast.CompositeLit); number(c, "NetworkCardIndex") == card {
			return number(c, "MaximumNetworkInterfaces")
		}
	}
	return number(limits, s.enis)
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
	var from []string
	for _, s := range sources {
		from = append(from, s.module+" "+s.version)
	}
	return "# Generated from " + strings.Join(from, " and ") +
		" by bootstrap/internal/instance/generate. DO NOT EDIT.\n" +
		"# Interfaces of the default network card, IPv4 addresses per interface, instance types.\n" +
		strings.Join(lines, "\n") + "\n"
}
