// Package validate has the helpers of the components' Prepare methods: they
// recognize values that are not known yet, and return every error at once.
package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/packer-plugin-sdk/hcl2helper"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/template/config"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// All joins errors for Packer's `validate`, with one line for each problem; nil
// when there is none. Each part of an errors.Join is a problem of its own.
func All(errs ...error) error {
	var all *packersdk.MultiError
	for _, err := range flatten(errs) {
		all = packersdk.MultiErrorAppend(all, err)
	}
	if all == nil { // a nil *MultiError in an error would not be nil
		return nil
	}
	return all
}

func flatten(errs []error) []error {
	var flat []error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if parts := joined(err); parts != nil {
			flat = append(flat, flatten(parts)...)
			continue
		}
		flat = append(flat, err)
	}
	return flat
}

// joined returns the parts of an errors.Join; nil for any other error, also for an
// error that wraps several and adds text.
func joined(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	parts := several.Unwrap()
	lines := show.Each(parts, error.Error)
	if strings.Join(lines, "\n") != err.Error() {
		return nil
	}
	return parts
}

// Home replaces the ~ at the beginning of a path on the Packer host by the home
// folder of the user who runs Packer. HCL hands a ~ on as it stands, and no
// field means a folder of that name. The field's name is for the error, which
// refuses other people's homes (~name).
func Home(field string, name *string) error {
	first, _, _ := strings.Cut(filepath.ToSlash(*name), "/")
	switch {
	case !strings.HasPrefix(first, "~"):
		return nil
	case first != "~":
		return fmt.Errorf("%s: %s begins with %s: only ~/ is replaced by a home folder; write the whole path, or "+
			"./%[2]s for a folder of that name", field, *name, first)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("%s: finding the home folder for %s: %w", field, *name, err)
	}
	*name = filepath.Join(home, (*name)[1:])
	return nil
}

// HCL returns the HCL attributes of a block: the fields of the struct that block
// points to, and of the structs squashed into it, under the names in their
// `mapstructure` tags.
func HCL(block any) hcldec.ObjectSpec {
	spec := hcldec.ObjectSpec{}
	for _, f := range flat(reflect.TypeOf(block).Elem()) {
		kind, err := gocty.ImpliedType(reflect.Zero(f.Type).Interface())
		if err != nil {
			panic(fmt.Sprintf("the field %s of %T: %v", f.Name, block, err))
		}
		name := f.Tag.Get("cty")
		spec[name] = &hcldec.AttrSpec{Name: name, Type: kind}
	}
	return spec
}

// flat lists the fields that HCL can set, each with its name as `cty` tag. Scalars
// are pointers, because HCL leaves them null.
func flat(block reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for f := range block.Fields() {
		switch name := f.Tag.Get("mapstructure"); {
		case name == ",squash":
			fields = append(fields, flat(f.Type)...)
		case f.IsExported() && name != "" && name != "-":
			kind := f.Type
			if kind.Kind() != reflect.Slice && kind.Kind() != reflect.Map {
				kind = reflect.PointerTo(kind)
			}
			tag := reflect.StructTag(fmt.Sprintf("cty:%q", name))
			fields = append(fields, reflect.StructField{Name: f.Name, Type: kind, Tag: tag})
		}
	}
	return fields
}

// decode decodes what Packer sends into the struct that block points to. It does
// what config.Decode does for blocks with generated code: that the values of HCL
// have the fields' types is checked here.
func decode(block any, options *config.DecodeOpts, raws ...any) error {
	for i, raw := range raws {
		value, ok := raw.(cty.Value)
		if !ok {
			continue
		}
		typed := reflect.New(reflect.StructOf(flat(reflect.TypeOf(block).Elem())))
		if err := gocty.FromCtyValue(value, typed.Interface()); err != nil {
			return named(err)
		}
		text, err := ctyjson.SimpleJSONValue{Value: value}.MarshalJSON()
		if err != nil {
			return fmt.Errorf("reading the block's fields: %w", err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			return fmt.Errorf("reading the block's fields: %w", err)
		}
		raws[i] = fields
	}
	return config.Decode(block, options, raws...)
}

// Block is the block of a component in a template. Components embed it.
type Block[C any] struct{ Config C }

// ConfigSpec implements packersdk.HCL2Speccer.
func (b *Block[C]) ConfigSpec() hcldec.ObjectSpec { return HCL(&b.Config) }

// Decode decodes the fields. Packer calls a component when it loads the template, with
// Unknown for values that are not known yet, and again before the component works and before
// each retry: nothing of an earlier call remains.
func (b *Block[C]) Decode(options *config.DecodeOpts, raws ...any) error {
	b.Config = *new(C)
	return decode(&b.Config, options, raws...)
}

// DecodeRendered is Decode with the templates in double braces of every field
// rendered. No field needs double braces of its own.
func (b *Block[C]) DecodeRendered(plugin string, raws ...any) error {
	return b.Decode(&config.DecodeOpts{
		PluginType: plugin, Interpolate: true, InterpolateContext: new(interpolate.Context),
	}, raws...)
}

// Source is the block of a data source with outputs.
type Source[C, O any] struct{ Block[C] }

// OutputSpec is what the data source tells, for Packer's validate.
func (s *Source[C, O]) OutputSpec() hcldec.ObjectSpec { return HCL(new(O)) }

// Value are the outputs as Packer takes them.
func (s *Source[C, O]) Value(outputs O) cty.Value {
	return hcl2helper.HCL2ValueFromConfig(outputs, s.OutputSpec())
}

func named(err error) error {
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		if field, ok := at.Path[0].(cty.GetAttrStep); ok {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
	}
	return err
}

// Unknown is the text that Packer's core puts in place of a string that is not
// known at validate time (hcl2template/shim in Packer's sources). An output of a
// data source is replaced as a whole; a value of a builder (build.User) also
// within a longer string. Unknown numbers arrive as 0, unknown booleans as false,
// unknown lists and maps empty.
const Unknown = "<unknown>"

// IsUnknown reports whether s is not known yet, so that its form cannot be
// checked. Packer calls Prepare again with the known value before the build.
func IsUnknown(s string) bool { return strings.Contains(s, Unknown) }

// Known returns s, or "" when s is not known yet.
func Known(s string) string {
	if IsUnknown(s) {
		return ""
	}
	return s
}

// KnownOf is the list without the strings that are not known yet.
func KnownOf(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), IsUnknown)
}

// KnownFields is a copy of a struct in which no field has what is not known yet:
// texts are empty, lists and maps lack those entries. Structs in it are looked
// through, pointers are not.
func KnownFields[T any](fields T) T {
	forget(reflect.ValueOf(&fields).Elem())
	return fields
}

// forget takes out of v what is not known yet. Lists and maps are copied first.
func forget(v reflect.Value) {
	switch list, isList := reflect.TypeAssert[[]string](v); {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				forget(v.Field(i))
			}
		}
	case v.Kind() == reflect.String:
		v.SetString(Known(v.String()))
	case isList:
		v.Set(reflect.ValueOf(KnownOf(list)))
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.String && !v.IsNil():
		known := reflect.MakeMap(v.Type())
		for entry := v.MapRange(); entry.Next(); {
			if !IsUnknown(entry.Value().String()) {
				known.SetMapIndex(entry.Key(), entry.Value())
			}
		}
		v.Set(known)
	}
}

// Lock reads the lock file of the field lock_file, on the Packer host; nil where
// there is none, or where it is not known yet. Its content travels to the
// machine.
func Lock(file *string) (*provisioner.Lock, error) {
	if err := Home("lock_file", file); err != nil {
		return nil, err
	}
	if *file == "" || IsUnknown(*file) {
		return nil, nil
	}
	lock, err := provisioner.ReadLock(*file)
	if err != nil {
		return nil, fmt.Errorf("lock_file: %w", err)
	}
	return lock, nil
}
