package ami

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

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
		return "", fmt.Errorf("the artifact of %s has no files, so it has no disk image; set disk, or use a builder that writes a disk image, such as qemu", show.Line(a.BuilderId()))
	case len(files) > filesMost:
		return "", fmt.Errorf("the artifact of %s has %d files; set disk to the path of the disk image", show.Line(a.BuilderId()), len(files))
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
		return "", fmt.Errorf("no file of the artifact of %s is a disk image; set disk to the path of one:\n%w", show.Line(a.BuilderId()), errors.Join(reasons...))
	case 1:
		return disks[0], nil
	default:
		return "", fmt.Errorf("the artifact has several disk images, but an AMI of eksnode-ami has one: %s; set disk to the path of the disk with the root file system", show.Line(strings.Join(disks, ", ")))
	}
}

// probe returns an error if a file is not a disk image with content.
func probe(file string) error {
	image, err := disk.Open(file)
	if err != nil {
		return err
	}
	defer image.Close()
	layout, err := image.Layout()
	if err != nil {
		return err
	}
	if layout.Table == "" && !slices.ContainsFunc(layout.Partitions, func(p disk.Partition) bool { return p.Kind != "" }) {
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
			switch one := one.(type) {
			case string:
				paths = append(paths, one)
			case []byte:
				paths = append(paths, string(one))
			}
		}
	}
	return paths
}
