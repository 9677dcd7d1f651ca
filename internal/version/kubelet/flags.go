package kubelet

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"fmt"
	"iter"
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
	if _, form, err := f.parse(value); err != nil {
		return fmt.Sprintf("%q must be %s", value, form)
	}
	return ""
}

// parse reads a value as the kubelet does, and names the form that values have. It
// returns nil for types that are checked elsewhere.
func (f Flag) parse(value string) (parsed any, form string, err error) {
	switch f.Type {
	case "bool":
		parsed, err = strconv.ParseBool(value)
		return parsed, "true or false", err
	case "int", "int64":
		parsed, err = strconv.ParseInt(value, 0, 64)
		return parsed, "a number", err
	case "int32":
		parsed, err = strconv.ParseInt(value, 0, 32)
		return parsed, "a number", err
	case "Level":
		parsed, err = strconv.ParseUint(value, 10, 31)
		return parsed, "a number", err
	case "string":
		return value, "", nil
	case "duration":
		_, err = time.ParseDuration(value)
		return value, "a duration such as 30s or 1m30s", err
	case "ip":
		_, err = netip.ParseAddr(strings.TrimSpace(value))
		return value, "an address", err
	case "stringSlice":
		parsed, err = splitList(value)
		return parsed, "a list such as a,b", err
	case "mapStringBool":
		parsed, err = f.members(value, func(on string) (any, error) { return strconv.ParseBool(on) })
		return parsed, "a list such as Name=true,Other=false", err
	case "mapStringString":
		parsed, err = f.members(value, func(text string) (any, error) { return text, nil })
		return parsed, fmt.Sprintf("a list such as name%svalue", f.Between()), err
	}
	return nil, "", nil
}

// members reads the members of an object, such as a=1,b=2.
func (f Flag) members(value string, read func(string) (any, error)) (map[string]any, error) {
	members := map[string]any{}
	for pair := range strings.SplitSeq(value, ",") {
		name, text, found := strings.Cut(pair, f.Between())
		if pair == "" {
			continue
		}
		one, err := read(strings.TrimSpace(text))
		if err != nil || !found || name == "" && f.Type == "mapStringBool" {
			return nil, cmp.Or(err, strconv.ErrSyntax)
		}
		members[strings.TrimSpace(name)] = one
	}
	return members, nil
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

// Argument is a flag in a command line of the kubelet, or a word that is none.
type Argument struct {
	// Index is that of the flag's word.
	Index int
	// Text has the words as they were written, and Name those before the value.
	Text, Name string
	// Flag is empty if the kubelet has no such flag.
	Flag Flag
	// Value is "true" for a boolean flag without a value.
	Value string
	// Missing says that the flag's value is missing.
	Missing bool
}

// Arguments reads a command line as the kubelet does: a value follows = or is the next word.
func Arguments(words []string) iter.Seq[Argument] {
	return func(yield func(Argument) bool) {
		for i := 0; i < len(words); i++ {
			name, value, attached := strings.Cut(words[i], "=")
			a := Argument{Index: i, Text: words[i], Name: name, Value: value}
			isFlag := strings.HasPrefix(name, "-")
			if isFlag {
				a.Flag = Flags()[FlagName(name)]
			}
			known, last := a.Flag.Name != "", i+1 == len(words)
			switch {
			case !isFlag, attached:
			case a.Flag.Boolean():
				a.Value = "true"
			case known && last:
				a.Missing = true
			case known, !last && !strings.HasPrefix(words[i+1], "-"):
				i++
				a.Text, a.Value = a.Text+" "+words[i], words[i]
			}
			if !yield(a) {
				return
			}
		}
	}
}

// readFlags returns what is wrong with arguments, and the configuration that the others
// set.
func readFlags(minor int, arguments []string) (problems []Problem, fields map[string]any) {
	c := config{fields: map[string]any{}}
	for a := range Arguments(arguments) {
		last, err := strconv.Atoi(a.Flag.Last)
		said := ""
		switch {
		case a.Flag.Name == "":
			said = "the kubelet has no such flag"
		case err == nil && last < minor:
			said = fmt.Sprintf("Kubernetes 1.%d was the last with this flag", last)
		case a.Missing:
			said = "the value is missing"
		default:
			said = a.Flag.Problem(a.Value)
		}
		if said != "" {
			problems = append(problems, Problem{Field: a.Name, Text: said, Flag: true})
		} else if a.Flag.Field != "" {
			a.Flag.apply(c, a.Value)
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
	parsed, _, _ := f.parse(value) // the caller has checked the value
	switch v := parsed.(type) {
	case nil:
		return
	case []string:
		parsed = slices.Concat(c.list(f.Field), v)
	case map[string]any:
		old, _ := object(c.get(f.Field))
		parsed = merge(old, v)
	}
	c.set(f.Field, parsed)
}
