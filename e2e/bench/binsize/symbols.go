package binsize

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Share is what one origin has in a program, in bytes.
type Share struct {
	Origin string
	Code   int64
	Data   int64
}

// Contents are a program's bytes by origin, the largest first.
type Contents struct {
	Shares []Share
	// Tables are what the linker made for all: line numbers and stack maps
	// (.gopclntab), types and strings (the rest of .rodata).
	Lines, Types int64
}

// ReadContents reads the symbol table of a Go program that was not stripped.
func ReadContents(program string) (Contents, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return Contents{}, fmt.Errorf("reading the modules of %s: %w", program, err)
	}
	modules := []string{info.Main.Path}
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}
	file, err := elf.Open(program)
	if err != nil {
		return Contents{}, fmt.Errorf("reading the symbols of %s: %w", program, err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return Contents{}, fmt.Errorf("reading the symbols of %s: %w", program, err)
	}
	return group(file.Sections, symbols, modules), nil
}

func group(sections []*elf.Section, symbols []elf.Symbol, modules []string) Contents {
	var c Contents
	named := int64(0) // of .rodata
	byOrigin := map[string]*Share{}
	for _, s := range symbols {
		if int(s.Section) >= len(sections) || elf.ST_TYPE(s.Info) != elf.STT_FUNC && elf.ST_TYPE(s.Info) != elf.STT_OBJECT {
			continue
		}
		section := sections[s.Section]
		// What has no bytes in the file (.bss) does not travel.
		if section.Type != elf.SHT_PROGBITS || section.Name == ".gopclntab" {
			continue
		}
		if section.Name == ".rodata" {
			if isTable(s.Name) {
				continue
			}
			named += int64(s.Size)
		}
		origin := originOf(packageOf(s.Name), modules)
		share := byOrigin[origin]
		if share == nil {
			share = &Share{Origin: origin}
			byOrigin[origin] = share
		}
		if section.Name == ".text" {
			share.Code += int64(s.Size)
		} else {
			share.Data += int64(s.Size)
		}
	}
	for _, s := range byOrigin {
		c.Shares = append(c.Shares, *s)
	}
	slices.SortFunc(c.Shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Code+b.Data, a.Code+a.Data), cmp.Compare(a.Origin, b.Origin))
	})
	for _, section := range sections {
		switch section.Name {
		case ".gopclntab":
			c.Lines = int64(section.Size)
		case ".rodata":
			c.Types = int64(section.Size) - named
		}
	}
	return c
}

// isTable says whether a symbol of .rodata is the linker's own table.
func isTable(symbol string) bool {
	return strings.HasPrefix(symbol, "go:") || strings.HasPrefix(symbol, "type:") || strings.HasPrefix(symbol, "runtime.types") ||
		strings.HasPrefix(symbol, "runtime.gcbits")
}

// packageOf is the import path in a symbol's name: everything up to the first
// dot behind the last slash. Type arguments, which hold paths of their own, are
// cut off first; compiler-made equality and hash functions name their type.
func packageOf(symbol string) string {
	for _, prefix := range []string{"type:.eq.", "type:.hash.", "go:itab.*", "go:itab."} {
		if rest, ok := strings.CutPrefix(symbol, prefix); ok {
			symbol = strings.TrimLeft(rest, "*[]0123456789")
			break
		}
	}
	symbol, _, _ = strings.Cut(symbol, "[")
	slash := strings.LastIndex(symbol, "/")
	dot := strings.Index(symbol[slash+1:], ".")
	if dot < 0 {
		return ""
	}
	path := symbol[:slash+1+dot]
	// The compiler escapes dots of a path's last element: gopkg.in/yaml%2ev3.
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

// stdOrigins sorts the standard library's packages into what a reader knows as
// one thing; the first prefix that fits counts.
var stdOrigins = []struct{ prefix, origin string }{
	{"vendor/golang.org/x/crypto", "std: crypto and TLS"},
	{"vendor/", "std: net/http and net"},
	{"crypto", "std: crypto and TLS"},
	{"net", "std: net/http and net"},
	{"mime", "std: net/http and net"},
	{"encoding/json", "std: encoding/json"},
	{"encoding/asn1", "std: crypto and TLS"},
	{"math/big", "std: crypto and TLS"},
	{"text/template", "std: text/template"},
	{"regexp", "std: regexp"},
	{"reflect", "std: reflect"},
	{"runtime", "std: runtime"},
	{"internal/runtime", "std: runtime"},
}

// originOf is the module that a package belongs to, or what of the standard
// library it is.
func originOf(path string, modules []string) string {
	best := ""
	for _, m := range modules {
		if (path == m || strings.HasPrefix(path, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	switch {
	case best != "" && best == modules[0], path == "main":
		return "this project"
	case best != "":
		return best
	case path == "":
		return "no package (assembly, start-up)"
	}
	for _, std := range stdOrigins {
		if path == std.prefix || strings.HasPrefix(path, strings.TrimSuffix(std.prefix, "/")+"/") {
			return std.origin
		}
	}
	return "std: the rest"
}
