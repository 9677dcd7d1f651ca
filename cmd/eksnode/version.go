package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

func versionCommand() *cobra.Command {
	var image bool
	var root, format string
	cmd := newCommand("version", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if !image {
			if root != "" || cmd.Flags().Changed("output") {
				return errors.New("--root and --output have no effect without --image")
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		}
		m, err := loadManifest(root)
		if err != nil {
			return err
		}
		return printImage(cmd.OutOrStdout(), m, format)
	})
	bind(cmd, targets{"image": &image, "root": &root})
	formatFlag(cmd, &format, "text", "json", "sbom")
	return cmd
}

// loadManifest reads the manifest of an image. A missing manifest is an error.
func loadManifest(root string) (m *manifest.Manifest, err error) {
	h, err := openHost(root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if m, err = manifest.Load(h); err == nil && m == nil {
		err = fmt.Errorf("reading the manifest of the image: %s does not exist; eksnode did not provision this image",
			manifest.Path)
	}
	return m, err
}

func printImage(w io.Writer, m *manifest.Manifest, format string) error {
	var data []byte
	var err error
	switch format {
	case "json":
		data, err = m.Encode()
	case "sbom":
		data, err = m.SBOM()
	default:
		return summarize(w, m)
	}
	if err == nil {
		_, err = w.Write(show.JSON(data))
	}
	return err
}

func summarize(w io.Writer, m *manifest.Manifest) error {
	var rows [][]string
	row := func(words ...string) { rows = append(rows, show.Each(words, show.Line)) } // an image may contain any text
	row("kubernetes", m.KubernetesVersion)
	row("distro", m.Distro+" "+m.DistroVersion)
	row("arch", m.Arch)
	row("eksnode", m.Tool)
	for _, a := range m.Assets {
		row("asset", a.ID+" "+a.Version, "sha256:"+a.SHA256)
	}
	for _, i := range m.Images {
		row("image", i.Name, i.Digest)
	}
	for _, p := range m.Packages {
		row("package", p.Name+" "+p.Version)
	}
	p := newPrinter(w)
	p.table(rows)
	return p.err
}
