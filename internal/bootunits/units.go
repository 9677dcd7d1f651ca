// Package bootunits is what an image carries for its first boot: the boot units and
// the names by which user data calls this program. Provisioning lays it down.
// What network managers are told without knowing the instance is each
// distribution's own setting.
package bootunits

import (
	"bytes"
	"embed"
	"io/fs"
	"path"
)

//go:embed assets
var assets embed.FS

// Layout says where a distribution has what no package owns.
type Layout struct {
	// Command is the path of eksnode itself.
	Command string
	// Commands is the folder of commands, and Units that of units.
	Commands, Units string
}

// File is one file, link or folder. Root owns it.
type File struct {
	Path string
	Mode fs.FileMode
	// Content is a file's; nil for a link or a folder.
	Content []byte
	// Link is where a symbolic link points; empty for the others.
	Link string
	// Folder says that it is one.
	Folder bool
	// Why says what needs it.
	Why string
}

// wants is where systemd finds what starts at boot.
const wants = "/etc/systemd/system/multi-user.target.wants"

// boot lists the units in the order in which they run, with what they are for.
// All start at boot.
var boot = []struct{ name, why string }{
	{"eksnode-network.service", "settles who owns which network interface"},
	{"eksnode-config.service", "configures the node before user data scripts run"},
	{"eksnode-run.service", "starts the node's services after user data scripts"},
}

// Units are the names of the boot units in the order in which they run.
func Units() []string {
	var names []string
	for _, u := range boot {
		names = append(names, u.name)
	}
	return names
}

// Preset is the line for each unit in a preset file, so that a first boot that
// applies presets leaves them enabled.
func Preset() []string {
	var lines []string
	for _, u := range Units() {
		lines = append(lines, "enable "+u)
	}
	return lines
}

// Files lists everything, folders first.
func Files(l Layout) []File {
	list := []File{
		{Path: "/etc/eks/nodeadm.d", Mode: 0o755, Folder: true, Why: "user data scripts put NodeConfigs here for the run phase"},
		{Path: "/etc/eks/bootstrap.sh", Mode: 0o755, Content: l.read("bootstrap.sh"), Why: "user data of Amazon Linux 2's kind calls it"},
		{Path: path.Join(l.Commands, "nodeadm"), Mode: 0o777, Link: path.Base(l.Command), Why: "user data of Amazon Linux 2023's kind calls it"},
	}
	if path.Dir(l.Command) != path.Clean(l.Commands) {
		list[2].Link = l.Command
	}
	for _, u := range boot {
		list = append(list,
			File{Path: path.Join(l.Units, u.name), Mode: 0o644, Content: l.read(u.name), Why: u.why},
			File{Path: path.Join(wants, u.name), Mode: 0o777, Link: path.Join(l.Units, u.name), Why: "starts it at boot"},
		)
	}
	return list
}

func (l Layout) read(name string) []byte {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the file is part of this program
	}
	return bytes.ReplaceAll(content, []byte("{command}"), []byte(l.Command))
}
