package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

func identityRules() []rule.Rule {
	g := []string{"identity"}
	return []rule.Rule{
		{
			ID: "machine-id", Phase: rule.Identity, Groups: g, Verb: plan.Empty,
			Paths: []string{"/etc/machine-id"}, Owner: "systemd",
			Why:         "every node would have the same machine ID",
			Regenerated: "systemd, at boot", Source: "machine-id(5)",
			Look: emptyMachineID,
		},
		{
			ID: "dbus-machine-id", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/dbus/machine-id"}, Owner: "D-Bus",
			Why:         "an empty machine ID is filled from this file, the same on every node; a link stays",
			Regenerated: "D-Bus, systemd-tmpfiles", Source: "machine-id(5)",
			Look: dbusMachineID,
		},
		{
			ID: "random-seed", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret", "/boot/loader/random-seed",
				"/boot/efi/loader/random-seed", "/efi/loader/random-seed", "/var/lib/urandom/random-seed",
				"/var/lib/systemd/tpm2-srk-public-key.*", "/var/cache/pollinate/*",
			}, Owner: "systemd, pollinate",
			Why:         "every node would start with the same random seed",
			Regenerated: "systemd, pollinate, at boot", Source: "https://systemd.io/BUILDING_IMAGES/, pollinate.service",
		},
		{
			ID: "hostname", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/hostname", "/etc/HOSTNAME", "/etc/machine-info"}, Owner: "cloud-init, systemd-hostnamed",
			Why: "every node would start with the builder machine's name", Regenerated: "cloud-init, DHCP", Source: "https://systemd.io/BUILDING_IMAGES/",
		},
		{
			ID: "cloud-init", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/cloud/data", "/var/lib/cloud/instance", "/var/lib/cloud/instances", "/var/lib/cloud/sem", "/var/lib/cloud/handlers/*", "/var/lib/cloud/seed/*",
				"/etc/cloud/cloud.cfg.d/90-installer-network.cfg", "/etc/cloud/clean.d/*.run", "/etc/secret-userdata.txt",
			}, Owner: "cloud-init, the boot script of Cluster API on AWS",
			Why:         "every node would carry the build's user data, instance ID and secrets, and cloud-init could run that user data again",
			Regenerated: "cloud-init", Source: "cloud-init clean --seed, cloud-init #2174",
		},
		{
			ID: "ignition", Phase: rule.Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/oem/config.ign", "/usr/share/oem/config.ign", "/boot/ignition/config.ign", "/etc/.ignition-result.json", "/var/lib/flatcar-install/*", "/var/lib/coreos-install/*",
			}, Owner: "Ignition, the image's installer",
			Why:         "every node would apply the configuration of the build, with its keys and password hashes, before its own",
			Regenerated: "nothing; a node takes its configuration from user data", Source: "image-builder, sysprep role; Ignition: operator notes",
		},
		{
			ID: "ssm-registration", Phase: rule.Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/var/lib/amazon/ssm/registration", "/var/lib/amazon/ssm/Vault", "/var/lib/amazon/ssm/runtimeconfig/*", "/var/lib/amazon/ssm/ipc",
				"/var/lib/amazon/ssm/i-*", "/var/lib/amazon/ssm/mi-*", "/var/lib/amazon/toe/*", "/var/snap/amazon-ssm-agent/[0-9]*/*", "/var/snap/amazon-ssm-agent/common/*",
			}, Owner: "amazon-ssm-agent, EC2 Image Builder",
			Why: "two nodes with the builder machine's registration appear as one managed instance", Regenerated: "amazon-ssm-agent", Source: "amazon-ssm-agent #216, #381",
		},
		{
			ID: "storage-ids", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/etc/lvm/devices/system.devices", "/etc/lvm/devices/backup/*", "/etc/lvm/backup/*", "/etc/lvm/archive/*", "/etc/multipath/bindings", "/etc/multipath/wwids",
				"/etc/blkid.tab*", "/etc/blkid/*", "/var/lib/iscsi/nodes/*", "/var/lib/iscsi/send_targets/*", "/etc/iscsi/nodes/*", "/etc/iscsi/send_targets/*",
				"/var/lib/nfs/sm/*", "/var/lib/nfs/sm.bak/*", "/var/lib/nfs/statd/sm/*", "/var/lib/nfs/statd/sm.bak/*", "/var/lib/nfs/rmtab", "/var/lib/trident/*", "/etc/zfs/zpool.cache",
			}, Owner: "LVM, multipathd, libblkid, open-iscsi, NFS, Trident, ZFS",
			Why: "the files name the builder machine's disks, which a node does not have", Regenerated: "LVM, multipathd, libblkid", Source: "virt-sysprep, multipath.conf(5)",
		},
		{
			ID: "nvme-host", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/nvme/hostnqn", "/etc/nvme/hostid"}, Owner: "nvme-cli's package",
			Why:         "nodes with the same NVMe host name take each other's NVMe over Fabrics volumes and reservations",
			Regenerated: "nvme-cli and the kernel, from the machine's UUID", Source: "metal-images #359, harvester/os2 #190",
		},
		{
			ID: "hibernation", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/hibinit-agent/hibernation-enabled"}, Owner: "ec2-hibinit-agent",
			Why: "the marker says that the swap file exists, so a node would never create its own", Regenerated: "ec2-hibinit-agent", Source: "ec2-hibinit-agent",
		},
		{
			ID: "clock-drift", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/chrony/*", "/var/lib/ntp/*drift*", "/var/lib/ntpsec/*drift*"}, Owner: "chronyd, ntpd",
			Why: "the files contain the drift of the builder machine's clock, and cookies that identify it to time servers", Regenerated: "chronyd, ntpd", Source: "chrony.conf(5), driftfile and ntsdumpdir",
		},
		{
			ID: "installer", Phase: rule.Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/root/anaconda-ks.cfg", "/root/original-ks.cfg", "/root/initial-setup-ks.cfg", "/root/anaconda-post.log", "/root/install.log*", "/var/log/anaconda/*", "/var/log/installer/*", "/etc/cloud/cloud.cfg.d/99-installer.cfg",
				"/etc/cloud/cloud.cfg.d/*subiquity-disable-cloudinit-networking.cfg", "/etc/cloud/cloud.cfg.d/curtin-preserve-sources.cfg",
			}, Owner: "Anaconda, Subiquity",
			Why:         "the installer's answers contain password hashes; on Ubuntu they also stop cloud-init from reading EC2's metadata",
			Regenerated: "nothing", Source: "image-builder",
		},
		{
			ID: "iscsi-initiator", Phase: rule.Identity, Groups: []string{"identity"}, Verb: plan.Remove,
			Paths: []string{"/etc/iscsi/initiatorname.iscsi"}, Owner: "open-iscsi",
			Why:         "nodes with the same initiator name take each other's volumes",
			Regenerated: "iscsi-init.service; without it, the file stays and the rule reports it", Source: "gardenlinux #3188",
			Look: staleInitiator,
		},
		{
			ID: "snapd-device", Phase: rule.Identity, Groups: []string{"identity", "secrets"}, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/snapd/device/*", "/var/lib/snapd/assertions/asserts-v0/serial/*", "/var/lib/snapd/assertions/asserts-v0/device-session-request/*",
				"/var/lib/snapd/cookie/*", "/var/lib/snapd/cache/*", "/var/lib/snapd/snapshots/*", "/var/lib/snapd/errtracker.db",
			}, Owner: "snapd",
			Why:         "all nodes would be one device at the Snap Store, with the builder machine's private key and serial number",
			Regenerated: "snapd, which creates a key and requests a serial number", Source: "snapd: overlord/devicestate, ensureOperational",
		},
		{
			ID: "snapd-state", Phase: rule.Identity, Groups: []string{"identity", "secrets"}, Verb: plan.Write,
			Paths: []string{"/var/lib/snapd/state.json"}, Owner: "snapd",
			Why:         "the file has the device's serial number and sessions, and the store logins of people; the list of installed snaps stays",
			Regenerated: "snapd, when it registers the device again", Source: "snapd: overlord/auth, data.auth",
			Look: snapdWithoutDevice,
		},
	}
}

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

// compact returns the object as snapd writes it: in one line.
func (o *object) compact() (json.RawMessage, error) {
	text, err := o.text()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Compact(&b, text)
	return b.Bytes(), err
}
