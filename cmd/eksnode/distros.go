//go:build !agent

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

// distrosCommand prints the table of package distros.
func distrosCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "distros",
		Short:   "List the supported distributions and their differences",
		Example: "  eksnode distros\n  eksnode distros --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), describeDistros())
			}
			return printDistros(cmd.OutOrStdout())
		},
	}
	formatFlag(cmd, &output, "text", "json")
	return cmd
}

func printDistros(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DISTRO\tVERSIONS\tSUPPORT ENDS\tPACKAGES\tNETWORK\tSECURITY\tUSER\tKNOWN TO WORK")
	current, ended := distros.ByEnd(time.Now())
	for _, d := range current {
		versions := "rolling"
		if len(d.Versions) > 0 {
			versions = strings.Join(d.Versions, ", ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, versions, d.SupportEnds(), d.PackageManager.Name(), d.Network.Name, d.Security.Name, d.DefaultUser, d.Tested)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nEnded, provisioned only with --accept-ended:")
	for _, d := range ended {
		fmt.Fprintf(w, "  %s %s\n", d.ID, d.SupportEnds())
	}
	printNotes(w)
	fmt.Fprintln(w, "\nRefused:")
	for _, u := range distros.AllUnprovisioned() {
		fmt.Fprintf(w, "  %s\n", u.Err())
	}
	return nil
}

// printNotes prints the other ends, and what people should check in base images.
func printNotes(w io.Writer) {
	fmt.Fprintln(w, "\nNotes:")
	for _, d := range distros.All() {
		for _, version := range d.ReleaseNames() {
			f := d.Releases[version]
			for _, e := range f.Ends[min(1, len(f.Ends)):] {
				fmt.Fprintf(w, "  %s %s: last day of the %s: %s\n", d.ID, version, e.Of, e.Day)
			}
			if f.Caution != "" {
				fmt.Fprintf(w, "  %s %s: %s\n", d.ID, version, f.Caution)
			}
		}
	}
}

// distroTable is the output of --output json.
type distroTable struct {
	Distros []distroRow  `json:"distros"`
	Refused []refusedRow `json:"refused"`
}

type distroRow struct {
	ID               string   `json:"id"`
	Name             string   `json:"name"`
	OSRelease        []string `json:"os_release"`
	Versions         []string `json:"versions"`
	NewestKubernetes int      `json:"newest_kubernetes_minor,omitempty"`

	// Releases are the facts of each version; "" is a rolling distribution.
	Releases map[string]distros.ReleaseFacts `json:"releases"`

	Tested         distros.Proof             `json:"tested"`
	Differs        string                    `json:"differs"`
	PackageManager string                    `json:"package_manager"`
	Packages       map[distros.Role][]string `json:"packages"`

	PackagesOf map[string]map[distros.Role][]string `json:"packages_of_version,omitempty"`

	Upstream    []string                   `json:"upstream,omitempty"`
	Network     string                     `json:"network"`
	Security    string                     `json:"security"`
	Time        string                     `json:"time"`
	Kernel      string                     `json:"kernel_arguments"`
	Quirks      []string                   `json:"quirks,omitempty"`
	CAAnchors   string                     `json:"ca_anchors"`
	DefaultUser string                     `json:"default_user"`
	BaseImages  map[string]baseImagesByCPU `json:"base_images"`
}

type baseImagesByCPU map[string]baseImageRow

type baseImageRow struct {
	Owner      string `json:"owner"`
	ChinaOwner string `json:"china_owner,omitempty"`
	Name       string `json:"name"`
	Parameter  string `json:"ssm_parameter,omitempty"`
}

type refusedRow struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Instead string `json:"instead"`
}

func describeDistros() distroTable {
	table := distroTable{Distros: []distroRow{}, Refused: []refusedRow{}}
	for _, d := range distros.All() {
		row := distroRow{
			ID: d.ID, Name: d.Name, OSRelease: d.OSRelease, Versions: d.Versions, NewestKubernetes: d.NewestKubernetes, Releases: d.Releases,
			Tested: d.Tested, Differs: d.Differs, PackageManager: d.PackageManager.Name(), Packages: d.Packages, PackagesOf: d.PackagesOf, Upstream: d.Upstream,
			Network: d.Network.Name, Security: d.Security.Name, Time: d.Time.Name, Kernel: d.Kernel.Name,
			CAAnchors: d.CAAnchors, DefaultUser: d.DefaultUser, BaseImages: baseImages(d),
		}
		for _, q := range d.Quirks {
			row.Quirks = append(row.Quirks, q.Name)
		}
		table.Distros = append(table.Distros, row)
	}
	for _, u := range distros.AllUnprovisioned() {
		table.Refused = append(table.Refused, refusedRow{u.ID, u.Name, u.Reason, u.Instead})
	}
	return table
}

// baseImages lists the base images by version and architecture. The version of a
// rolling distribution is empty.
func baseImages(d distros.Distro) map[string]baseImagesByCPU {
	versions := d.Versions
	if len(versions) == 0 {
		versions = []string{""}
	}
	all := map[string]baseImagesByCPU{}
	for _, version := range versions {
		all[version] = baseImagesByCPU{}
		for _, arch := range arches() {
			if b, err := d.BaseImage(version, arch, ""); err == nil { // otherwise the distribution has no such architecture
				all[version][arch] = baseImageRow{b.Owner, b.ChinaOwner, b.Name, b.Parameter}
			}
		}
	}
	return all
}
