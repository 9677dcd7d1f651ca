package ami

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/packer-plugin-sdk/common"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/packerbuilderdata"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// withData are the fields whose templates can use data of the build. They are rendered
// when the build's artifact is known. Other fields can only call functions.
func withData() []string {
	return []string{"ami_name", "ami_description", "disk", "tags", "snapshot_tags"}
}

// functions are the functions of templates in addition to those of Packer.
func functions() map[string]any {
	return map[string]any{"clean_resource_name": func(name string) string {
		return notInNames.ReplaceAllString(name, "-")
	}}
}

// notInNames matches what the name of an AMI cannot have, and what amazon-ebs replaces.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9()\[\] ./'@_-]`)

// noValue is what a template becomes that refers to data that does not exist.
const noValue = "<no value>"

// rendered returns the config with the templates of the fields in withData rendered.
// Generated is the data of the builder.
func (c Config) rendered(generated map[string]any) (Config, error) {
	data := map[string]any{"BuildName": c.PackerBuildName, "BuilderType": c.PackerBuilderType}
	maps.Copy(data, generated)
	c.ctx.Data = data
	var errs []error
	for field, text := range map[string]*string{"ami_name": &c.Name, "ami_description": &c.Description,
		"disk": &c.Disk} {
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
		return fmt.Errorf("%s: %q refers to a value that does not exist; known: %s; in HCL, write ${build.NAME} for "+
			"values of the builder", field, *text, strings.Join(known, ", "))
	case strings.Contains(out, packerbuilderdata.PlaceholderMsg):
		out = validate.Unknown
	}
	*text = out
	return nil
}

// texts returns the texts of a map that came through RPC, by their names.
func texts(data any) map[string]any {
	all := map[string]any{}
	if v := reflect.ValueOf(data); v.Kind() == reflect.Map {
		for entry := v.MapRange(); entry.Next(); {
			if text, ok := textOf(entry.Value().Interface()); ok {
				all[fmt.Sprint(entry.Key())] = text
			}
		}
	}
	return all
}

// textOf returns a text that came through RPC, as a string or as bytes.
func textOf(value any) (string, bool) {
	if raw, isRaw := value.([]byte); isRaw {
		return string(raw), true
	}
	text, ok := value.(string)
	return text, ok
}

// filesMost is how many files of an artifact are opened.
const filesMost = 100

// diskOf finds the disk image among the files of an artifact. Other files that
// builders leave, such as UEFI's variables, have no partitions and no file system.
func diskOf(a packersdk.Artifact) (string, error) {
	files := a.Files()
	if named := disksOfQemu(a); len(named) > 0 {
		files = named
	}
	switch {
	case len(files) == 0:
		return "", fmt.Errorf("the artifact of %s has no files, so it has no disk image; set disk, or use a builder "+
			"that writes a disk image, such as qemu", show.Line(a.BuilderId()))
	case len(files) > filesMost:
		return "", fmt.Errorf("the artifact of %s has %d files; set disk to the path of the disk image",
			show.Line(a.BuilderId()), len(files))
	case len(files) == 1:
		return files[0], nil // the import says what is wrong with the file
	}
	var disks []string
	var reasons []error
	for _, file := range files {
		if err := probe(file); err != nil {
			reasons = append(reasons, err)
			continue
		}
		disks = append(disks, file)
	}
	switch len(disks) {
	case 0:
		return "", fmt.Errorf("no file of the artifact of %s is a disk image; set disk to the path of one:\n%w",
			show.Line(a.BuilderId()), errors.Join(reasons...))
	case 1:
		return disks[0], nil
	default:
		return "", fmt.Errorf("the artifact has several disk images, but an AMI of eksnode-ami has one: %s; set "+
			"disk to the path of the disk with the root file system", show.Line(strings.Join(disks, ", ")))
	}
}

// probe returns an error if a file is not a disk image with content.
func probe(file string) error {
	image, err := disk.Open(file)
	if err != nil {
		return err
	}
	defer image.Close()
	known := func(p disk.Partition) bool { return p.Kind != "" }
	if image.Layout.Table == "" && !slices.ContainsFunc(image.Layout.Partitions, known) {
		return fmt.Errorf("%s has no partitions and no file system", file)
	}
	return nil
}

// disksOfQemu are the disks that the builder qemu names in its state; nil for other
// artifacts. The first is the machine's main disk
// (https://github.com/hashicorp/packer-plugin-qemu/blob/main/builder/qemu/builder.go).
func disksOfQemu(a packersdk.Artifact) []string {
	if a.BuilderId() != "transcend.qemu" {
		return nil
	}
	var paths []string
	switch state := a.State("diskPaths").(type) {
	case []string:
		paths = state
	case []any: // through RPC
		for _, one := range state {
			if path, ok := textOf(one); ok {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Config holds the fields of a `post-processor "eksnode-ami"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`
	amiimport.Spec      `mapstructure:",squash"`

	// Path of the disk image: raw, qcow2 or fixed VHD. Defaults to the only disk image
	// among the files of the artifact.
	Disk string `mapstructure:"disk"`

	ctx interpolate.Context
}
