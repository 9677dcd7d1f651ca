package ami

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/packer-plugin-sdk/packerbuilderdata"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// withData are the fields whose templates can use data of the build. They are rendered
// when the build's artifact is known. Other fields can only call functions.
func withData() []string {
	return []string{"ami_name", "ami_description", "disk", "tags", "snapshot_tags"}
}

// functions are the functions of templates in addition to those of Packer.
func functions() map[string]any {
	return map[string]any{"clean_resource_name": cleanName}
}

// notInNames matches what the name of an AMI cannot have.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9()\[\] ./'@_-]`)

// cleanName replaces what the name of an AMI cannot have, as amazon-ebs does.
func cleanName(name string) string { return notInNames.ReplaceAllString(name, "-") }

// noValue is what a template becomes that refers to data that does not exist.
const noValue = "<no value>"

// rendered returns the config with the templates of the fields in withData rendered.
// Generated is the data of the builder.
func (c Config) rendered(generated map[string]any) (Config, error) {
	data := map[string]any{"BuildName": c.PackerBuildName, "BuilderType": c.PackerBuilderType}
	maps.Copy(data, generated)
	c.ctx.Data = data
	var errs []error
	for field, text := range map[string]*string{"ami_name": &c.Name, "ami_description": &c.Description, "disk": &c.Disk} {
		errs = append(errs, c.render(field, text))
	}
	for field, tags := range map[string]*map[string]string{"tags": &c.Tags, "snapshot_tags": &c.SnapshotTags} {
		all := map[string]string{}
		for key, value := range *tags {
			errs = append(errs, c.render(field, &key), c.render(fmt.Sprintf("%s[%q]", field, key), &value))
			all[key] = value
		}
		*tags = all
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return c, errors.Join(errs...)
}

func (c Config) render(field string, text *string) error {
	out, err := interpolate.Render(*text, &c.ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", field, err)
	case strings.Contains(out, noValue):
		known := slices.Sorted(maps.Keys(c.ctx.Data.(map[string]any)))
		return fmt.Errorf("%s: %q refers to a value that does not exist; known: %s; in HCL, write ${build.NAME} for values of the builder", field, *text, strings.Join(known, ", "))
	case strings.Contains(out, packerbuilderdata.PlaceholderMsg):
		out = validate.Unknown
	}
	*text = out
	return nil
}

// texts returns the texts of a map that came through RPC, by their names.
func texts(data any) map[string]any {
	all := map[string]any{}
	add := func(key, value any) {
		text, isText := value.(string)
		if raw, isRaw := value.([]byte); isRaw {
			text, isText = string(raw), true
		}
		if isText {
			all[fmt.Sprint(key)] = text
		}
	}
	switch data := data.(type) {
	case map[string]any:
		for key, value := range data {
			add(key, value)
		}
	case map[any]any:
		for key, value := range data {
			add(key, value)
		}
	}
	return all
}
