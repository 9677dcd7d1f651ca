package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/manifest"
	"github.com/eksnode/packer-plugin-eksnode/version"
)

// versionCommand says what this program is, and what an image is.
func versionCommand() *cobra.Command {
	var image bool
	var root, format string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, or what an image is made of",
		Example: "  eksnode version --image --output sbom",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !image {
				if root != "" || cmd.Flags().Changed("output") {
					return errors.New("--root and --output say something about an image: add --image")
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
				return err
			}
			m, err := loadManifest(root)
			if err != nil {
				return err
			}
			return printImage(cmd.OutOrStdout(), m, format)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&image, "image", false, "print what the image is made of, from its manifest")
	f.StringVar(&root, "root", "", "look at the image mounted here instead of this machine")
	f.StringVar(&format, "output", "text", "how to print the image: text, json or sbom (CycloneDX 1.5)")
	return cmd
}

// loadManifest reads the manifest of an image, which must have one.
func loadManifest(root string) (m *manifest.Manifest, err error) {
	h, err := openHost(root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if m, err = manifest.Load(h); err == nil && m == nil {
		err = fmt.Errorf("there is no %s: eksnode did not make this image", manifest.Path)
	}
	return m, err
}

// printImage prints a manifest.
func printImage(w io.Writer, m *manifest.Manifest, format string) error {
	var data []byte
	var err error
	switch format {
	case "text":
		return summarize(w, m)
	case "json":
		data, err = m.Encode()
	case "sbom":
		data, err = m.SBOM()
	default:
		return fmt.Errorf("--output: %q is not known; known: json, sbom, text", format)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// summarize prints what a person wants to know first.
func summarize(w io.Writer, m *manifest.Manifest) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "kubernetes\t%s\n", m.KubernetesVersion)
	fmt.Fprintf(t, "distro\t%s %s\n", m.Distro, m.DistroVersion)
	fmt.Fprintf(t, "arch\t%s\n", m.Arch)
	fmt.Fprintf(t, "eksnode\t%s\n", m.Tool)
	for _, a := range m.Assets {
		fmt.Fprintf(t, "asset\t%s %s\tsha256:%s\n", a.ID, a.Version, a.SHA256)
	}
	for _, i := range m.Images {
		fmt.Fprintf(t, "image\t%s\t%s\n", i.Name, i.Digest)
	}
	for _, p := range m.Packages {
		fmt.Fprintf(t, "package\t%s %s\n", p.Name, p.Version)
	}
	return t.Flush()
}
