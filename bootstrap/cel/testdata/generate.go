// This program writes cel.tsv, the answers that github.com/google/cel-go gives
// to hand-made and random expressions. It lies in testdata because cel-go is no
// dependency of this module:
//
//	mkdir /tmp/cel && cp bootstrap/cel/testdata/generate.go /tmp/cel/main.go && cd /tmp/cel
//	go mod init cel && go get github.com/google/cel-go@v0.31.0 && go run . > cel.tsv
package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

var variables = map[string]any{"default_enis": int64(3), "ips_per_eni": int64(6), "max_pods": int64(17), "big": int64(1<<63 - 1), "zero": int64(0)}

var fixed = []string{
	"417", "(default_enis * (ips_per_eni - 1)) + 2", "((default_enis - 1) * (ips_per_eni - 1)) + 2",
	"max_pods < 30 ? max_pods : 30", "true", "default_enis + fake", "default_enis * 2.0", "double(default_enis) * 2.5",
	"1 / 0", "1 % 0", "1.0 / 0.0", "big + 1", "big * 2", "-big - 2", "-9223372036854775808", "9223372036854775808",
	"- 5", "--5", "---5", "!true", "!!true", "!!!true", "-true", "1u - 2u", "18446744073709551615u + 1u", "uint(5) / 2u",
	"true || 1 / zero == 1", "1 / zero == 1 || true", "false && 1 / zero == 1", "1 / zero == 1 && false",
	"1 / zero == 1 || false", "max_pods in [17, 18]", "max_pods in [1, 2]", "[1, 2] == [1, 2]", "size([1, 2, 3])",
	"1 == 1.0", "1 < 2u", "true < false", "1 ? 2 : 3", "true ? 1 : 2.0", "true ? 1 : 1 / 0", "0x1F", "0xFu", "007", "1e3", "1.5e-3", ".5", "1.",
	"int(2.9)", "int(-2.9)", "uint(-1)", "int(1e30)", "uint(2.9)", "double(1u)", "int(18446744073709551615u)", "int(true)",
	"1 + 2 * 3 - 4 / 2 % 3", "(1 + 2", "1 +", "", "1 2", "max_pods // comment", "max_pods\n+ 1", "1 < 2 < 3", "1 == 1 == true", "-(-9223372036854775807 - 1)",
	"(-9223372036854775807 - 1) / -1", "(-9223372036854775807 - 1) % -1", "(-9223372036854775807 - 1) * -1", "-7 / 2", "-7 % 2", "7 % -2",
	"1 != 2", "1.0 % 2.0", "[1, 2", "true ? false ? 1 : 2 : 3", "false ? 1 : true ? 2 : 3", "1 in [1.0]", "default_enis.x", "- 9223372036854775808", "5 - -5", "5--5",
	"double(9007199254740993)", "int(9223372036854775807.0)", "int(9223372036854774784.0)", "[1] in [[1], [2]]", "0u - 0u", "2 - 3 - 4", "24 / 4 / 2", "true && true || false && true",
}

func random(r *rand.Rand, deep int) string {
	if deep == 0 || r.IntN(6) == 0 {
		return []string{"default_enis", "ips_per_eni", "max_pods", "big", "zero", "1", "2", "7", "-3", "2.5", "4u", "true", "false", "0"}[r.IntN(14)]
	}
	a, b := random(r, deep-1), random(r, deep-1)
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf("(%s) ? (%s) : (%s)", random(r, deep-1), a, b)
	case 1:
		return []string{"-", "!"}[r.IntN(2)] + "(" + a + ")"
	case 2:
		return []string{"int", "uint", "double"}[r.IntN(3)] + "(" + a + ")"
	case 3:
		return a + " in [" + b + ", " + random(r, 0) + "]"
	}
	op := []string{"+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||"}[r.IntN(13)]
	if r.IntN(2) == 0 {
		return "(" + a + ") " + op + " (" + b + ")"
	}
	return a + " " + op + " " + b
}

func answer(text string) string {
	opts := []cel.EnvOption{}
	for name := range variables {
		opts = append(opts, cel.Variable(name, cel.IntType))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		panic(err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return "compile"
	}
	program, err := env.Program(ast)
	if err != nil {
		return "compile"
	}
	v, _, err := program.Eval(variables)
	if err != nil {
		return "error"
	}
	i := v.ConvertToType(types.IntType)
	if types.IsError(i) {
		return fmt.Sprintf("%v none", v.Value())
	}
	return fmt.Sprintf("%v %v", v.Value(), i.Value())
}

func main() {
	r := rand.New(rand.NewPCG(1, 2))
	list := fixed
	seen := map[string]int{}
	for len(list) < len(fixed)+1200 {
		text := random(r, 1+r.IntN(4))
		if a := answer(text); seen[a] < 40 || a != "compile" {
			seen[a]++
			list = append(list, text)
		}
	}
	for _, text := range list {
		fmt.Printf("%s\t%s\n", strings.ReplaceAll(text, "\n", "\\n"), answer(text))
	}
}
