//go:build linux

package scrub

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const oldID = "0123456789abcdef0123456789abcdef"

// An audit after a scrub still knows the IDs from before, and finds them in
// names and contents.
func TestIDsFromBeforeAScrubAreFoundAfterwards(t *testing.T) {
	instance := "5c7d1e1a-0f3c-4d6e-9d3b-aa55bb66cc77"
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd, "etc/systemd/": "", "etc/machine-id": oldID + "\n", "var/lib/dbus/machine-id": oldID + "\n",
		"var/lib/cloud/data/instance-id": instance + "\n",
		"etc/app/id":                     "id=" + strings.ToUpper(oldID) + "\n",
		"etc/app/instance":               "uuid " + instance + "\n",
		"var/lib/app/state-" + oldID:     "x",
		"var/spool/app/01234567-89ab-cdef-0123-456789abcdef/x":     "x",
		"home/admin/.config/pulse/" + oldID + "-default-sink":      "x",
		"opt/app/" + oldID + ".d/" + oldID + ".conf":               "x",
		"var/log/journal/" + oldID + "/system.journal":             "x",
		"etc/kernel/entry-token":                                   oldID + "\n",
		"etc/app/other":                                            "fedcba9876543210fedcba9876543210\n",
		"var/lib/containerd/content/" + oldID:                      "x",
		"boot/loader/entries/" + oldID + "-6.1.0-1.x86_64.conf":    "title x\nlinux /vmlinuz-6.1\n",
		"boot/loader/entries/ffffffffffffffffffffffffffffffff-x.c": "x",
	})
	ids, err := MachineIDs(h)
	require.NoError(t, err)
	assert.Equal(t, []string{oldID, instance}, ids)
	apply(t, h, Spec{})
	items, err := Spec{Only: []string{"identity"}}.AuditItems(nil, ids...)
	require.NoError(t, err)
	var found []string
	for _, p := range plan.Make(t.Context(), h, items) {
		require.Empty(t, p.Error)
		require.Empty(t, p.Actions)
		for _, f := range p.Findings {
			found = append(found, p.Item+" "+f.Target+": "+f.Reason)
		}
	}
	const name = ": its name carries the builder machine's ID: rename or remove it"
	assert.ElementsMatch(t, []string{
		"old-ids-left /etc/app/id: line 1 contains the machine's id from before the scrub",
		"old-ids-left /etc/app/instance: line 1 contains the machine's id from before the scrub",
		"old-ids-left /var/lib/app/state-" + oldID + name,
		"old-ids-left /var/spool/app/01234567-89ab-cdef-0123-456789abcdef" + name,
		"old-ids-left /home/admin/.config/pulse/" + oldID + "-default-sink" + name,
		"old-ids-left /opt/app/" + oldID + ".d" + name,
	}, found)
	for name, content := range snapshot(t, root) {
		assert.False(t, strings.HasPrefix(name, "/boot") && strings.Contains(name+content, oldID), name)
	}
}

// Boot entries get neutral names, also in what names them, and stay bootable.
func TestBootEntriesGetNeutralNames(t *testing.T) {
	const f = neutralID
	env := "# GRUB Environment Block\nsaved_entry=" + oldID + "-5.14.0-1.el9.x86_64\nboot_success=1\n"
	env += strings.Repeat("#", 1024-len(env))
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd,
		"boot/loader/entries/" + oldID + "-5.14.0-1.el9.x86_64.conf": "title RHEL\nversion 5.14\nlinux /vmlinuz-5.14.0-1.el9.x86_64\noptions $kernelopts\nmachine-id " + oldID + "\n",
		"boot/loader/entries/" + oldID + "-0-rescue.conf":            "title RHEL (0-rescue-" + oldID + ")\nlinux /vmlinuz-0-rescue-" + oldID + "\ninitrd /initramfs-0-rescue-" + oldID + ".img\n",
		"boot/vmlinuz-0-rescue-" + oldID:                             "kernel", "boot/initramfs-0-rescue-" + oldID + ".img": "initrd",
		"boot/grub2/grubenv":                       env,
		"boot/vmlinuz-5.14.0-1.el9.x86_64":         "kernel",
		"boot/loader/entries/arch.conf":            "title Arch\n",
		"boot/loader/loader.conf":                  "timeout 3\ndefault " + oldID + "-*\n",
		"boot/efi/EFI/Linux/" + oldID + "-6.efi":   "uki",
		"boot/" + oldID + "/":                      "",
		"etc/kernel/entry-token":                   oldID + "\n",
		"boot/loader/entries/" + f + "-other.conf": "title x\n",
	})
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"boot-entries"}})
	after := snapshot(t, root)
	assert.Equal(t, []string{
		"+ /boot/efi/EFI/Linux/" + f + "-6.efi", "+ /boot/initramfs-0-rescue-" + f + ".img",
		"+ /boot/loader/entries/" + f + "-0-rescue.conf", "+ /boot/loader/entries/" + f + "-5.14.0-1.el9.x86_64.conf", "+ /boot/vmlinuz-0-rescue-" + f,
		"- /boot/" + oldID, "- /boot/efi/EFI/Linux/" + oldID + "-6.efi", "- /boot/initramfs-0-rescue-" + oldID + ".img",
		"- /boot/loader/entries/" + oldID + "-0-rescue.conf", "- /boot/loader/entries/" + oldID + "-5.14.0-1.el9.x86_64.conf", "- /boot/vmlinuz-0-rescue-" + oldID,
		"- /etc/kernel/entry-token", "~ /boot/grub2/grubenv", "~ /boot/loader/loader.conf",
	}, diff(before, after))
	assert.Equal(t, "title RHEL\nversion 5.14\nlinux /vmlinuz-5.14.0-1.el9.x86_64\noptions $kernelopts\n", after["/boot/loader/entries/"+f+"-5.14.0-1.el9.x86_64.conf"])
	assert.Equal(t, strings.ReplaceAll(before["/boot/loader/entries/"+oldID+"-0-rescue.conf"], oldID, f), after["/boot/loader/entries/"+f+"-0-rescue.conf"])
	assert.Equal(t, strings.Replace(env, oldID, f, 1), after["/boot/grub2/grubenv"])
	assert.Len(t, after["/boot/grub2/grubenv"], 1024)
	assert.Equal(t, "timeout 3\ndefault "+f+"-*\n", after["/boot/loader/loader.conf"])
	assert.Empty(t, audit(t, h, "boot-entries"))
}

// Kernels in a folder with the ID stay, with their entries and the token, and
// are a finding.
func TestKernelsInAFolderOfTheMachineIDAreReported(t *testing.T) {
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd, "efi/" + oldID + "/6.1/linux": "kernel", "etc/kernel/entry-token": oldID + "\n", "efi/loader/loader.conf": "default " + oldID + "-*\n",
		"efi/loader/entries/" + oldID + "-6.1.conf": "title x\nmachine-id " + oldID + "\nlinux /" + oldID + "/6.1/linux\n",
	})
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"boot-entries"}})
	assert.Empty(t, diff(before, snapshot(t, root)))
	assert.Equal(t, []string{"/efi/" + oldID + ": the machine boots from a folder with the builder machine's ID as its name: " +
		"write another name, such as the distribution's ID, into /etc/kernel/entry-token, run kernel-install add-all, and remove the folder"}, audit(t, h, "boot-entries"))
}
