package rules

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// emptyMachineID plans an empty /etc/machine-id. Without the file, journald or
// the whole boot fails. With the content "uninitialized", systemd would apply
// presets to every unit again.
func emptyMachineID(d *rule.Draft) {
	name := d.Paths[0]
	st := d.Stat(name)
	if st != nil && !st.Mode().IsRegular() {
		d.Find(name, "the file is not a regular file, and systemd needs an empty regular file: remove "+name)
		return
	}
	target, err := d.Host.Files.ReadlinkIfPossible(name)
	switch isLink := err == nil; {
	case isLink && st != nil:
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		if !strings.HasPrefix(target, "/run/") && len(d.Content(name)) > 0 { // each boot creates what is in /run
			d.Write(plan.Write, name, nil, "points to this machine's ID; every node would have the same ID")
		}
	case st != nil:
		d.Plan(plan.Empty, name, "this machine's ID; every node would have the same ID")
	case d.Exists("/etc/systemd"):
		d.Act(rule.WriteAction(d.Host, plan.Write, name, nil, host.Attributes{Mode: 0o444},
			"missing, and systemd needs an empty file to create a machine ID"))
	}
}

// dbusMachineID plans the removal of D-Bus's own copy of the ID.
func dbusMachineID(d *rule.Draft) {
	name := d.Paths[0]
	st := d.Lstat(name)
	if st == nil || !st.IsDir() {
		removesFiles(ofBuilder)(d)
		return
	}
	empty, err := rule.IsEmpty(d.Host, name)
	d.Failed(err)
	if !empty {
		d.Find(name, "a folder with files stands in place of the file: remove "+name)
		return
	}
	d.Remove(name, "an empty folder stands in place of the file")
}

// staleInitiator plans the removal of the iSCSI initiator's name if a unit
// creates a new name at boot: iscsid does not start without a name. Debian's
// file may request a new name (GenerateName=yes), and then contains none.
func staleInitiator(d *rule.Draft) {
	name := d.Paths[0]
	if !d.IsFile(name) || !bytes.Contains(d.Content(name), []byte("InitiatorName=")) {
		return
	}
	if d.HasUnit("iscsi-init.service") {
		d.Remove(name, ofBuilder)
		return
	}
	d.Find(name, "no unit on this machine creates a new name at boot, and iscsid needs one: "+
		"on Debian, write GenerateName=yes into the file; otherwise remove the package of iscsid")
}

// snapdWithoutDevice plans snapd's state without the device's registration and
// without logins.
func snapdWithoutDevice(d *rule.Draft) {
	name := d.Paths[0]
	if st := d.Stat(name); st == nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return
	}
	left, err := withoutDevice(d.Content(name))
	if err != nil {
		d.Find(name, fmt.Sprintf("not readable as snapd's state (%v), so its serial number and logins stay: "+
			"repair the file, or remove snapd with its data", err))
	} else if left != nil {
		d.Write(plan.Write, name, left, "has the builder machine's registration and logins")
	}
}

// withoutDevice removes the registration from snapd's state; nil if there is
// none. Brand and model stay: snapd would otherwise choose others.
func withoutDevice(text []byte) ([]byte, error) {
	state, err := parseObject(text)
	if err != nil {
		return nil, err
	}
	ofPeople, err := state.drop([]string{"data", "auth"}, "users", "macaroon-key")
	if err != nil {
		return nil, err
	}
	ofDevice, err := state.drop([]string{"data", "auth", "device"}, "serial", "key-id", "session-macaroon")
	if err != nil || !ofPeople && !ofDevice {
		return nil, err
	}
	return state.compact()
}

// drop removes keys from the object at a path, if there is one.
func (o *object) drop(at []string, keys ...string) (changed bool, err error) {
	if len(at) == 0 {
		for _, key := range keys {
			changed = o.remove(key) || changed
		}
		return changed, nil
	}
	raw, ok := o.values[at[0]]
	if !ok || string(raw) == "null" {
		return false, nil
	}
	inner, err := parseObject(raw)
	if err == nil {
		changed, err = inner.drop(at[1:], keys...)
	}
	if err == nil && changed {
		o.values[at[0]], err = inner.compact()
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", at[0], err)
	}
	return changed, nil
}
