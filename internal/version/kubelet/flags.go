package kubelet

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed flags.txt
var flagTable string

// Flag is a flag of the kubelet.
type Flag struct {
	Name string
	// Type is the type's name in package pflag, or "value" where it is unknown.
	Type string
	// Last is the last minor version of Kubernetes with the flag; empty if the flag was
	// not removed.
	Last string
	// Field is the field of KubeletConfiguration that the flag sets; empty for none.
	Field string
}

// Boolean reports whether the flag takes no value of its own.
func (f Flag) Boolean() bool { return f.Type == "bool" }

// Flags maps names without dashes to the flags.
var Flags = sync.OnceValue(func() map[string]Flag {
	flags := map[string]Flag{}
	for line := range strings.Lines(flagTable) {
		words := strings.Fields(line)
		if len(words) != 5 || words[0] == "#" {
			continue
		}
		known := func(word string) string { return strings.TrimPrefix(word, "-") }
		flags[words[0]] = Flag{Name: words[0], Type: words[1], Last: known(words[3]), Field: known(words[4])}
	}
	return flags
})

// FlagName is a flag's name as the table has it: the kubelet takes _ for -.
func FlagName(flag string) string {
	return strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
}

// Problem says why the kubelet refuses a value of the flag, or nothing. Whether the
// configuration with the value is valid is a question for Problems.
func (f Flag) Problem(value string) string {
	var err error
	form := ""
	switch f.Type {
	case "bool":
		_, err = strconv.ParseBool(value)
		form = "true or false"
	case "int", "int64":
		_, err = strconv.ParseInt(value, 0, 64)
		form = "a number"
	case "int32":
		_, err = strconv.ParseInt(value, 0, 32)
		form = "a number"
	case "Level":
		_, err = strconv.ParseUint(value, 10, 31)
		form = "a number"
	case "duration":
		_, err = time.ParseDuration(value)
		form = "a duration such as 30s or 1m30s"
	case "ip":
		_, err = netip.ParseAddr(strings.TrimSpace(value))
		form = "an address"
	case "stringSlice":
		_, err = splitList(value)
		form = "a list such as a,b"
	case "mapStringBool":
		form = "a list such as Name=true,Other=false"
		for pair := range strings.SplitSeq(value, ",") {
			if name, on, found := strings.Cut(pair, "="); pair != "" && err == nil {
				if _, err = strconv.ParseBool(strings.TrimSpace(on)); !found || name == "" {
					err = strconv.ErrSyntax
				}
			}
		}
	case "mapStringString":
		form = fmt.Sprintf("a list such as name%svalue", f.Between())
		for pair := range strings.SplitSeq(value, ",") {
			if pair != "" && !strings.Contains(pair, f.Between()) {
				err = strconv.ErrSyntax
			}
		}
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%q must be %s", value, form)
}

// SetBy returns the flag that sets a field of KubeletConfiguration; ok is false where no
// kubelet of today has one. A flag of its own sets seccompDefault too.
func SetBy(field string) (f Flag, ok bool) {
	for _, f := range Flags() {
		if f.Field == field && f.Last == "" {
			return f, true
		}
	}
	f, ok = Flags()["seccomp-default"]
	return f, ok && field == "seccompDefault"
}

// Between separates name and value of a member. It is empty for flags without members.
func (f Flag) Between() string {
	switch {
	case f.Name == "eviction-hard", f.Name == "eviction-soft":
		return "<"
	case strings.HasPrefix(f.Type, "mapString"):
		return "="
	}
	return ""
}

func splitList(value string) ([]string, error) {
	if value == "" {
		return []string{}, nil
	}
	return csv.NewReader(strings.NewReader(value)).Read()
}

// readFlags returns what is wrong with arguments, and the configuration that the others
// set.
func readFlags(minor int, arguments []string) (problems []Problem, fields map[string]any) {
	c := config{fields: map[string]any{}}
	for i := 0; i < len(arguments); i++ {
		name, value, attached := strings.Cut(arguments[i], "=")
		f, known := Flags()[FlagName(name)]
		last, err := strconv.Atoi(f.Last)
		said := ""
		switch {
		case !known || !strings.HasPrefix(name, "-"):
			said = "the kubelet has no such flag"
		case err == nil && last < minor:
			said = fmt.Sprintf("Kubernetes 1.%d was the last with this flag", last)
		case attached:
		case f.Boolean():
			value = "true"
		case i+1 == len(arguments):
			said = "the value is missing"
		default:
			i++
			value = arguments[i]
		}
		said = cmp.Or(said, f.Problem(value))
		if said != "" {
			problems = append(problems, Problem{Field: name, Text: said, Flag: true})
		} else if f.Field != "" {
			f.apply(c, value)
		}
	}
	return problems, c.fields
}

// MaxPods returns the number of pods that a configuration and arguments set; ok is false
// where none does. Arguments override the configuration.
func MaxPods(minor int, config map[string]any, arguments []string) (pods int64, ok bool) {
	_, fields := readFlags(minor, arguments)
	return integer(newConfig(minor, nil, config, fields).get("maxPods"))
}

// apply sets the flag's field. A list or an object that is given twice grows.
func (f Flag) apply(c config, value string) {
	switch f.Type {
	case "bool":
		on, _ := strconv.ParseBool(value)
		c.set(f.Field, on)
	case "int", "int32", "int64", "Level":
		n, _ := strconv.ParseInt(value, 0, 64)
		c.set(f.Field, n)
	case "stringSlice":
		list, _ := splitList(value)
		c.set(f.Field, slices.Concat(c.list(f.Field), list))
	case "mapStringBool", "mapStringString":
		members := merge(nil, map[string]any{})
		if old, ok := object(c.get(f.Field)); ok {
			members = merge(members, old)
		}
		for pair := range strings.SplitSeq(value, ",") {
			name, v, found := strings.Cut(pair, f.Between())
			on, err := strconv.ParseBool(strings.TrimSpace(v))
			switch {
			case !found:
			case f.Type == "mapStringString":
				members[strings.TrimSpace(name)] = strings.TrimSpace(v)
			case err == nil:
				members[strings.TrimSpace(name)] = on
			}
		}
		c.set(f.Field, members)
	case "string", "duration", "ip":
		c.set(f.Field, value)
	}
}
