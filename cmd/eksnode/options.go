package main

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

//go:embed optionhelp.txt
var optionHelps string

// optionHelp returns the help text of an option in a package's spec.
func optionHelp(pkg, option string) string {
	_, rest, _ := strings.Cut(optionHelps, "\n"+pkg+" "+option+" ")
	help, _, _ := strings.Cut(rest, "\n")
	return help
}

// options adds a flag for each field of a spec. The name is the field's name in
// HCL with dashes. The help comes from the field's comment. With chosen names,
// options adds only those.
func options(flags *pflag.FlagSet, spec any, chosen ...string) {
	v := reflect.ValueOf(spec).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := f.Tag.Get("mapstructure")
		if name == ",squash" || name == "-" || len(chosen) > 0 && !slices.Contains(chosen, name) {
			continue
		}
		help := optionHelp(path.Base(v.Type().PkgPath()), name)
		flag := strings.TrimPrefix(surface.Name(name).Flag(), "--")
		option(flags, flag, "", help, f.Tag.Get("flag"), v.FieldByIndex(f.Index))
	}
}

// targets are the variables that flags set, by the name of the flag, and after a comma by a letter.
type targets map[string]any

// bind adds flags whose texts are in help.txt. The defaults are the values of the variables.
func bind(cmd *cobra.Command, to targets) {
	for names, target := range to {
		name, letter, _ := strings.Cut(names, ",")
		option(cmd.Flags(), name, letter, "", "", reflect.ValueOf(target).Elem())
	}
}

// option adds the flag of a field.
func option(flags *pflag.FlagSet, name, letter, help, form string, v reflect.Value) {
	if v.Kind() == reflect.String { // also named string types
		v = v.Addr().Convert(reflect.TypeFor[*string]()).Elem()
	}
	if !v.IsZero() { // pflag prints the default itself
		help, _, _ = strings.Cut(help, " (default")
	}
	switch value := v.Addr().Interface().(type) {
	case *string:
		if form == "file" {
			flags.Var((*textFile)(value), name, help)
			return
		}
		flags.StringVarP(value, name, letter, *value, help)
	case *bool:
		flags.BoolVarP(value, name, letter, *value, help)
	case *int:
		flags.IntVarP(value, name, letter, *value, help)
	case *time.Duration:
		flags.DurationVarP(value, name, letter, *value, help)
	case *[]string:
		flags.StringSliceVarP(value, name, letter, *value, help)
	case *map[string]string:
		if form == "file" {
			flags.Var(&contents{value}, name, help)
			return
		}
		flags.StringToStringVarP(value, name, letter, *value, help)
	default:
		panic(fmt.Sprintf("--%s: a flag cannot be a %s", name, v.Type())) // a test adds every flag
	}
}

// textFile is a flag whose value is the content of a file.
type textFile string

func (*textFile) Type() string { return "file" }

func (*textFile) String() string { return "" }

// Set takes the name of a file.
func (f *textFile) Set(file string) error {
	if err := expanded(file); err != nil {
		return err
	}
	text, err := surface.ReadFile(file)
	if err == nil && len(text) == 0 {
		err = errors.New("the file is empty")
	}
	*f = textFile(text)
	return err
}

// nameFile is the type of a flag that reads files.
const nameFile = "name=file"

// contents is a flag that reads files, each by a name.
type contents struct{ values *map[string]string }

func (*contents) Type() string { return nameFile }

func (*contents) String() string { return "" }

// Set takes one NAME=FILE.
func (c *contents) Set(value string) error {
	name, file, _ := strings.Cut(value, "=")
	if name == "" || file == "" {
		return fmt.Errorf("%q must be NAME=FILE", value)
	}
	if err := expanded(file); err != nil {
		return err
	}
	text, err := surface.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the file of %q: %w", name, err)
	}
	if *c.values == nil {
		*c.values = map[string]string{}
	}
	(*c.values)[name] = string(text)
	return nil
}

// inFields fixes an error to the names of fields in HCL and JSON, for options that
// come from a file.
func inFields(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

func readLocal(local provisioner.Local, spec *provisioner.Spec) (err error) {
	if local.LockFile != "" {
		if spec.Lock, err = provisioner.ReadLock(local.LockFile); err != nil {
			err = fmt.Errorf("--lock-file: %w", err)
		}
	}
	return errors.Join(err, local.ReadContent(spec), local.Check(*spec))
}
