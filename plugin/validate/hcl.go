package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/packer-plugin-sdk/template/config"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

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

// Decode decodes what Packer sends into the struct that block points to. It does
// what config.Decode does for blocks with generated code: that the values of HCL
// have the fields' types is checked here.
func Decode(block any, options *config.DecodeOpts, raws ...any) error {
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

// named returns an error of gocty with the name of its field.
func named(err error) error {
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		if field, ok := at.Path[0].(cty.GetAttrStep); ok {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
	}
	return err
}
