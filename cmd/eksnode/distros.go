//go:build !agent

package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

func distrosCommand() *cobra.Command {
	var output string
	cmd := newCommand("distros", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return answer(cmd, output, describeDistros(), printDistros)
	})
	formatFlag(cmd, &output, "text", "json")
	return cmd
}

func printDistros(p *printer) {
	rows := [][]string{{"DISTRO", "VERSIONS", "SUPPORT ENDS", "PACKAGES", "NETWORK", "SECURITY", "USER",
		"KNOWN TO WORK"}}
	current, ended := distros.ByEnd(time.Now())
	for _, d := range current {
		rows = append(rows, []string{
			d.ID, cmp.Or(strings.Join(d.Versions, ", "),
				"rolling"), d.SupportEnds(), d.PackageManager.Name(), d.Network.Name,
			d.Security.Name, d.DefaultUser, string(d.Tested),
		})
	}
	p.table(rows)
	p.line("\nEnded, provisioned only with --accept-ended:")
	for _, d := range ended {
		p.line("  %s %s", d.ID, d.SupportEnds())
	}
	p.line("\nNotes:") // the other ends, and what people should check in base images
	for _, d := range distros.All() {
		for _, version := range d.ReleaseNames() {
			f := d.Releases[version]
			for _, e := range f.Ends[min(1, len(f.Ends)):] {
				p.line("  %s %s: last day of the %s: %s", d.ID, version, e.Of, e.Day)
			}
			if f.Caution != "" {
				p.line("  %s %s: %s", d.ID, version, f.Caution)
			}
		}
	}
	p.line("\nRefused:")
	for _, u := range distros.AllUnprovisioned() {
		p.line("  %s", u.Err())
	}
}

// distroTable is the output of --output json.
type distroTable struct {
	Distros []distroRow             `json:"distros"`
	Refused []distros.Unprovisioned `json:"refused"`
}

type distroRow struct {
	distros.Distro
	PackageManager string                     `json:"package_manager"`
	Network        string                     `json:"network"`
	Security       string                     `json:"security"`
	Time           string                     `json:"time"`
	Kernel         string                     `json:"kernel_arguments"`
	Quirks         []string                   `json:"quirks,omitempty"`
	BaseImages     map[string]baseImagesByCPU `json:"base_images"`
}

type baseImagesByCPU map[string]distros.BaseImage

func describeDistros() distroTable {
	table := distroTable{Refused: distros.AllUnprovisioned()}
	for _, d := range distros.All() {
		row := distroRow{
			Distro: d, PackageManager: d.PackageManager.Name(), Network: d.Network.Name, Security: d.Security.Name,
			Time: d.Time.Name, Kernel: d.Kernel.Name, BaseImages: baseImages(d),
		}
		for _, q := range d.Quirks {
			row.Quirks = append(row.Quirks, q.Name)
		}
		table.Distros = append(table.Distros, row)
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
			if b, err := d.BaseImage(version, arch,
				""); err == nil { // otherwise the distribution has no such architecture
				all[version][arch] = b
			}
		}
	}
	return all
}
