package provisioner

import (
	_ "embed"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

//go:embed refusals.yaml
var refusalsFile []byte

// refusals are the settings that the kernel refuses, or with which no node works.
var refusals = sync.OnceValue(func() (table struct {
	Parameters []number
	Needs      []need
	Arguments  []unfit
	Packages   []misfit
}) {
	strictjson.Ours("refusals.yaml", refusalsFile, &table)
	return table
})

// number is a row of kernel parameters with whole numbers.
type number struct {
	Names     []string // * matches one component
	Low, High int64
	Count     int // how many numbers, separated by blanks
}

// need is the range of parameters on a working node.
type need struct {
	Names       []string // * matches one component
	Least, Most int64
	Why         string
}

// unfit is a row of kernel arguments with which no node works.
type unfit struct {
	Names []string
	// Values are the refused values, each an item of a comma-separated list. Empty
	// means all but those in But.
	Values, But []string
	// Why continues a sentence that begins with the argument.
	Why string
}

// misfit is a row of packages with which no node works.
type misfit struct {
	Names []string
	Why   string
}

// refuses says whether the argument is refused with this value.
func (u unfit) refuses(value string) bool {
	if len(u.Values) == 0 {
		return !slices.Contains(u.But, strings.ToLower(value))
	}
	return slices.ContainsFunc(strings.Split(value, ","), func(part string) bool { // module names may have - and _
		same := func(v string) bool { return strings.EqualFold(dashless(v), dashless(part)) }
		return slices.ContainsFunc(u.Values, same)
	})
}

// dashless is a name in which the kernel treats - and _ as equal.
func dashless(name string) string { return strings.ReplaceAll(name, "-", "_") }

// checkArgument refuses a kernel argument with which no node works, or that
// contradicts another field.
func (s Spec) checkArgument(name, value string) error {
	same := func(other string) bool { return dashless(other) == dashless(name) }
	for _, u := range refusals().Arguments {
		if slices.ContainsFunc(u.Names, same) && u.refuses(value) {
			return errors.New(u.Why)
		}
	}
	switch parameter, isSysctl := strings.CutPrefix(name, "sysctl."); {
	case isSysctl:
		return checkParameter(parameter, value)
	case name == "fips" && value == "0" && s.FIPS != "":
		return surface.Errorf("contradicts %s", surface.Name("fips").Is(s.FIPS))
	case name == "audit" && (value == "0" || value == "off") && slices.Contains(s.Hardening, hardenAudit):
		return surface.Errorf("contradicts {hardening} %q: nothing would be recorded", hardenAudit)
	}
	return nil
}

// misfits says why no node works with a package; empty if nodes do.
func misfits(name string) string {
	for _, m := range refusals().Packages {
		if slices.Contains(m.Names, name) {
			return m.Why
		}
	}
	return ""
}
