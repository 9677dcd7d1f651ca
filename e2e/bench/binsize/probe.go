package binsize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Probe is a dependency and a use of it.
type Probe struct {
	// Name is what a person calls it.
	Name string
	// Imports are import paths, Use is statements that keep the linker from
	// dropping what the real program uses of them. They may use ctx, in (an
	// io.Reader) and out (an io.Writer).
	Imports []string
	Use     string
}

// Addition is what a dependency adds to a program, stripped and compressed.
type Addition struct {
	Name  string
	Alone Size // to a program that has none of the others
	OnTop Size // to a program that has all of the others
}

// Additions builds the probes with the module's versions of everything; module
// is its folder.
func Additions(ctx context.Context, module string, probes []Probe) (base Size, all []Addition, err error) {
	folder, err := os.MkdirTemp("", "eksnode-probes-")
	if err != nil {
		return base, nil, fmt.Errorf("making a folder for probes: %w", err)
	}
	defer os.RemoveAll(folder)

	sets := [][]Probe{nil, probes}
	for i, p := range probes {
		others := append(append([]Probe(nil), probes[:i]...), probes[i+1:]...)
		sets = append(sets, []Probe{p}, others)
	}
	sizes, err := buildAll(ctx, module, folder, sets)
	if err != nil {
		return base, nil, err
	}
	for i, p := range probes {
		alone, without := sizes[2+2*i], sizes[3+2*i]
		all = append(all, Addition{Name: p.Name, Alone: alone.less(sizes[0]), OnTop: sizes[1].less(without)})
	}
	return sizes[0], all, nil
}

// buildAll builds a program for each set, as many at a time as there are
// processors.
func buildAll(ctx context.Context, module, folder string, sets [][]Probe) ([]Size, error) {
	sizes, errs := make([]Size, len(sets)), make([]error, len(sets))
	var all sync.WaitGroup
	turns := make(chan struct{}, runtime.NumCPU())
	for i, set := range sets {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			sizes[i], errs[i] = buildProbe(ctx, module, filepath.Join(folder, fmt.Sprint(i)), set)
		})
	}
	all.Wait()
	return sizes, errors.Join(errs...)
}

func buildProbe(ctx context.Context, module, folder string, set []Probe) (Size, error) {
	source := filepath.Join(folder, "main.go")
	program := filepath.Join(folder, "probe")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return Size{}, fmt.Errorf("making a probe: %w", err)
	}
	if err := os.WriteFile(source, []byte(probeSource(set)), 0o644); err != nil {
		return Size{}, fmt.Errorf("making a probe: %w", err)
	}
	if err := Build(ctx, module, source, program, true); err != nil {
		return Size{}, fmt.Errorf("building a probe of %s: %w", names(set), err)
	}
	return Measure(program)
}

// probeSource is a program that does nothing but use the set. The condition is
// one that the compiler cannot foresee.
func probeSource(set []Probe) string {
	imports := map[string]bool{"context": true, "fmt": true, "io": true, "os": true}
	var uses strings.Builder
	for _, p := range set {
		for _, path := range p.Imports {
			imports[path] = true
		}
		fmt.Fprintf(&uses, "\tif len(os.Args) > 1 {\n\t\t%s\n\t}\n", p.Use)
	}
	var text strings.Builder
	text.WriteString("package main\n\nimport (\n")
	for path := range imports {
		fmt.Fprintf(&text, "\t%q\n", path)
	}
	text.WriteString(")\n\nfunc use(ctx context.Context, in io.Reader, out io.Writer) {\n")
	text.WriteString(uses.String())
	text.WriteString("\tfmt.Fprintln(out, in != nil, ctx)\n}\n\nfunc main() { use(context.Background(), os.Stdin, os.Stdout) }\n")
	return text.String()
}

func names(set []Probe) string {
	if len(set) == 0 {
		return "nothing"
	}
	var all []string
	for _, p := range set {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}
