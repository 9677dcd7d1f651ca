// Package bootunits contains the files of an image for first boot: the boot units,
// and the commands that user data calls. Provisioning installs them. Settings of
// network managers that do not depend on the instance are part of each
// distribution.
package bootunits

import (
	"bytes"
	"embed"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

//go:embed assets
var assets embed.FS

// Layout is where a distribution has files that no package owns.
type Layout struct {
	// Command is the path of eksnode.
	Command string
	// Commands is the folder of commands, and Units the folder of units.
	Commands, Units string
}

// wants is the folder in which systemd finds the units to start at boot.
const wants = "/etc/systemd/system/multi-user.target.wants"

type unit struct{ name, why string }

// boot lists the units in the order in which they run, with their purposes. All
// start at boot.
var boot = []unit{
	{"eksnode-network.service", "gives the secondary network interfaces to the VPC CNI"},
	{"eksnode-config.service", "configures the node before user data scripts run"},
	{"eksnode-run.service", "starts the node's services after user data scripts"},
}

// Units are the names of the boot units in the order in which they run.
func Units() []string {
	return show.Each(boot, func(u unit) string { return u.name })
}

// Preset is the line of each unit for a preset file, so that presets applied at
// first boot leave the units enabled.
func Preset() []string {
	return show.Each(Units(), func(name string) string { return "enable " + name })
}

// Files returns all files and links.
func Files(l Layout) (files []plan.File, links []plan.SymbolicLink) {
	command := l.Command
	if path.Dir(l.Command) == path.Clean(l.Commands) {
		command = path.Base(l.Command)
	}
	files = []plan.File{{Path: "/etc/eks/bootstrap.sh", Mode: 0o755, Content: l.read("bootstrap.sh"),
		Why: "user data in the form of Amazon Linux 2 calls this script"}}
	links = []plan.SymbolicLink{{Path: path.Join(l.Commands, "nodeadm"), To: command,
		Why: "user data in the form of Amazon Linux 2023 calls this command"}}
	for _, u := range boot {
		file := plan.File{Path: path.Join(l.Units, u.name), Mode: 0o644, Content: l.read(u.name), Why: u.why}
		files = append(files, file)
		links = append(links,
			plan.SymbolicLink{Path: path.Join(wants, u.name), To: file.Path, Why: "starts the unit at boot"})
	}
	return files, links
}

func (l Layout) read(name string) []byte {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the file is part of this program
	}
	return bytes.ReplaceAll(content, []byte("{command}"), []byte(l.Command))
}
