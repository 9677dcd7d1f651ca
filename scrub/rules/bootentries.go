package rules

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// entryToken is the file with the name that kernel-install gives to entries.
const entryToken = "/etc/kernel/entry-token"

// neutralID replaces a machine ID in names of boot entries. Images of osbuild
// have entries with this ID too.
const neutralID = "ffffffffffffffffffffffffffffffff"

var (
	machineID   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	entryName   = regexp.MustCompile(`^([0-9a-f]{32})(-.+)$`)
	machineLine = regexp.MustCompile(`(?m)^machine-id[ \t].*\n?`)
	inFolder    = regexp.MustCompile(`/[0-9a-f]{32}/`)
)

func isMachineID(text string) bool {
	return machineID.MatchString(text) && strings.Trim(text, text[:1]) != ""
}

// bootEntries plans neutral names for boot entries, and the removal of empty
// folders with the name of a machine ID. A folder with kernels is a finding,
// because the machine boots from these kernels.
func bootEntries(d *rule.Draft) {
	names := d.Matching(d.Paths...)
	kernels := bootFoldersOfIDs(d, names)
	for _, name := range names {
		bootFile(d, name, kernels)
	}
}

// bootFoldersOfIDs plans the removal of empty folders, and returns the IDs whose
// folders have files.
func bootFoldersOfIDs(d *rule.Draft, names []string) map[string]bool {
	kernels := map[string]bool{}
	for _, name := range names {
		if st := d.Lstat(name); st == nil || !st.IsDir() || !isMachineID(path.Base(name)) {
			continue
		}
		empty, err := rule.IsEmpty(d.Host, name)
		d.Failed(err)
		if empty {
			d.Remove(name, "an empty folder with the builder machine's ID as its name")
			continue
		}
		kernels[path.Base(name)] = true
		d.Find(name, "the machine boots from a folder with the builder machine's ID as its name: write another name, "+
			"such as the distribution's ID, into "+entryToken+", run kernel-install add-all, and remove the folder")
	}
	return kernels
}

func bootFile(d *rule.Draft, name string, kernels map[string]bool) {
	if st := d.Stat(name); st == nil || !st.Mode().IsRegular() {
		return
	}
	base := path.Base(name)
	switch m := entryName.FindStringSubmatch(base); {
	case name == entryToken:
		if id := strings.TrimSpace(string(d.Content(name))); isMachineID(id) && !kernels[id] {
			d.Remove(name, "the builder machine's ID; kernel-install would name every node's entries by it")
		}
	case base == "grubenv" || base == "loader.conf":
		planDefaultEntry(d, name, kernels)
	case m == nil || !isMachineID(m[1]):
	case path.Ext(base) == ".efi":
		d.Act(plan.Action{Verb: plan.Write, Target: name, Reason: "its name carries the builder machine's ID",
			Do: func(context.Context, plan.Progress) error {
				return d.Host.Files.Rename(name, path.Join(path.Dir(name), neutralID+m[2]))
			}})
	case path.Ext(base) == ".conf" && path.Base(path.Dir(name)) == "entries":
		planEntry(d, name, m[1])
	}
}

// planDefaultEntry plans new names in GRUB's environment, whose size stays, and
// in systemd-boot's configuration.
func planDefaultEntry(d *rule.Draft, name string, kernels map[string]bool) {
	text := d.Content(name)
	changed := defaultEntry().ReplaceAllFunc(text, func(found []byte) []byte {
		at := len(found) - 32
		if id := string(found[at:]); !isMachineID(id) || kernels[id] {
			return found
		}
		return append(bytes.Clone(found[:at]), neutralID...)
	})
	if !bytes.Equal(changed, text) {
		d.Write(plan.Write, name, changed, "names the default entry by the builder machine's ID")
	}
}

var defaultEntry = rule.Expression(`(?m)^(saved_entry=|next_entry=|default[ \t]+)[0-9a-f]{32}`)

// planEntry plans another name for a boot entry, and for the rescue kernel that
// the entry starts. An entry of a kernel in a folder stays with the folder.
func planEntry(d *rule.Draft, name, id string) {
	text := d.Content(name)
	if inFolder.Match(text) {
		return
	}
	attr, err := d.Host.Files.Attributes(name)
	d.Failed(err)
	entry := bytes.ReplaceAll(machineLine.ReplaceAll(text, nil), []byte(id), []byte(neutralID))
	d.Act(plan.Action{Verb: plan.Write, Target: name, Reason: "its name carries the builder machine's ID",
		Do: func(context.Context, plan.Progress) error {
			if err := renameRescue(d.Host, path.Join(path.Dir(name), "../.."), id, text); err != nil {
				return err
			}
			renamed := path.Join(path.Dir(name), neutralID+path.Base(name)[32:])
			if err := d.Host.Files.WriteFile(renamed, entry, attr); err != nil {
				return err
			}
			_, err := d.Host.Files.RemoveTree(name)
			return err
		}})
}

func renameRescue(h *host.Host, top, id string, entry []byte) error {
	for _, name := range []string{"vmlinuz-0-rescue-" + id, "initramfs-0-rescue-" + id + ".img"} {
		if !bytes.Contains(entry, []byte(name)) {
			continue
		}
		from := path.Join(top, name)
		if err := h.Files.Rename(from, strings.Replace(from, id, neutralID, 1)); rule.IgnoreMissing(err) != nil {
			return err
		}
	}
	return nil
}
