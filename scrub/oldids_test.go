//go:build linux

package scrub

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

const oldID = "0123456789abcdef0123456789abcdef"

// An audit after a scrub still knows the IDs from before, and finds them in
// names and contents.
func TestIDsFromBeforeAScrubAreFoundAfterwards(t *testing.T) {
	instance := "5c7d1e1a-0f3c-4d6e-9d3b-aa55bb66cc77"
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd + "far:x:1002:1002::/data/far:/bin/sh\n", "data/far/" + oldID + "-x": "x",
		"etc/systemd/": "", "etc/machine-id": oldID + "\n", "var/lib/dbus/machine-id": oldID + "\n",
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
	ids, err := rules.MachineIDs(h)
	require.NoError(t, err)
	assert.Equal(t, []string{oldID, instance}, ids)
	apply(t, h, Spec{})
	items, err := Spec{Only: []string{"identity"}}.Items(ToAudit, nil, ids...)
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
		"old-ids-left /opt/app/" + oldID + ".d" + name, "old-ids-left /data/far/" + oldID + "-x" + name,
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

// FuzzBootFiles plans and applies neutral names for any texts of the boot loader's
// files. Afterwards nothing is left to do.
func FuzzBootFiles(f *testing.F) {
	f.Add("title x\nmachine-id "+oldID+"\nlinux /vmlinuz-0-rescue-"+oldID+"\n", "saved_entry="+oldID+"-1\n", "default "+oldID+"-*\n", oldID)
	f.Add("linux /"+oldID+"/6/linux\n", "next_entry="+oldID, "default\t"+oldID, "fedora")
	f.Fuzz(func(t *testing.T, entry, env, loader, token string) {
		h, _ := tree(t, map[string]string{"boot/loader/entries/" + oldID + "-1.conf": entry, "boot/grub2/grubenv": env, "boot/loader/loader.conf": loader, "etc/kernel/entry-token": token})
		answer, err := look(t, "boot-entries", h)
		require.NoError(t, err)
		for _, a := range answer.Actions {
			require.NoError(t, a.Perform(t.Context(), nil))
		}
		answer, err = look(t, "boot-entries", h)
		require.NoError(t, err)
		require.Empty(t, answer.Actions)
	})
}

// What identifies the EC2 instance on which an image was built is found wherever
// configuration lives, and in names.
func TestEC2IDsOfTheBuilderAreFound(t *testing.T) {
	const id, eni, mac, account = "i-0a1b2c3d4e5f60718", "eni-0f1e2d3c4b5a69788", "02:aa:bb:cc:dd:ee", "210987654321"
	files := map[string]string{
		"etc/passwd": passwd, "etc/systemd/": "", "var/lib/cloud/data/instance-id": id + "\n",
		"run/cloud-init/instance-data.json": `{"ds": {"meta-data": {"instance-id": "` + id + `", "mac": "` + mac + `", "interface-id": "` + eni +
			`", "owner-id": "` + account + `"}, "dynamic": {"instance-identity": {"document": {"accountId": "` + account + `"}}}}}`,
		"opt/aws/amazon-cloudwatch-agent/etc/agent.toml": "[agent]\n  hostname = \"" + id + "\"\n", "opt/app/interface": eni + "\n",
		"srv/app/account.conf": "account = " + account + "\n", "usr/local/etc/app.conf": "mac=" + mac + "\n", "var/lib/aws/agent/" + id + "/state": "x", "var/lib/app/state-" + id + ".json": "{}", "srv/app/ip-10-0-1-249/": "",
		"etc/app/registry": account + ".dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.10\n", "etc/app/role": "arn:aws:iam::" + account + ":role/node\n", "etc/app/other": "987654321098\n",
	}
	h, _ := tree(t, files)
	ids, err := rules.MachineIDs(h)
	require.NoError(t, err)
	assert.Subset(t, ids, []string{id, eni, mac, account})
	items, err := Spec{Only: []string{"old-ids-left", "host-ids-left"}}.Items(ToAudit, nil, ids...)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, p := range plan.Make(t.Context(), h, items) {
		require.Empty(t, p.Error)
		for _, f := range p.Findings {
			found[f.Target] = true
		}
	}
	want := map[string]bool{"/opt/aws/amazon-cloudwatch-agent/etc/agent.toml": true, "/opt/app/interface": true, "/srv/app/account.conf": true,
		"/usr/local/etc/app.conf": true, "/var/lib/aws/agent/" + id: true,
		"/var/lib/app/state-" + id + ".json": true, "/srv/app/ip-10-0-1-249": true}
	assert.Equal(t, want, found)

	// An audit of another machine's disk knows the forms.
	delete(files, "run/cloud-init/instance-data.json")
	delete(files, "var/lib/cloud/data/instance-id")
	h, _ = tree(t, files)
	const named = ": its name carries the builder machine's ID: rename or remove it"
	assert.ElementsMatch(t, []string{"/var/lib/aws/agent/" + id + named, "/var/lib/app/state-" + id + ".json" + named, "/srv/app/ip-10-0-1-249" + named}, audit(t, h, "old-ids-left"))
	assert.ElementsMatch(t, []string{"/opt/app/interface: line 1 contains the id of a network interface in EC2", "/srv/app/account.conf: line 1 contains an AWS account's id",
		"/opt/aws/amazon-cloudwatch-agent/etc/agent.toml: line 2 contains an EC2 instance id"}, audit(t, h, "host-ids-left"))
}

func TestTheAPIServersOfAMachineAreSearchedAfterItsKubeconfigsAreGone(t *testing.T) {
	files := map[string]string{
		"etc/passwd":                         passwd,
		"etc/kubernetes/admin.conf":          "clusters:\n- cluster:\n    server: https://api.corp.internal:6443\n  name: x\n",
		"var/lib/kubelet/kubeconfig":         "clusters: [{cluster: {server: \"https://10.20.30.40:6443\"}}]\n",
		"etc/hosts":                          "127.0.0.1 localhost\n10.0.0.9 API.corp.internal\n",
		"etc/app.conf":                       "upstream=10.20.30.40:80\nother=10.20.30.40:6443\n",
		"home/admin/join.sh":                 "join api.corp.internal\n",
		"var/lib/cloud/scripts/per-boot/own": "api.corp.internal\n",
	}
	h, _ := tree(t, files)
	ids, err := rules.MachineIDs(h)
	require.NoError(t, err)
	assert.Equal(t, []string{"10.20.30.40:6443", "api.corp.internal"}, ids)
	found, err := look(t, "old-ids-left", h)
	require.NoError(t, err)
	got := show.Each(found.Findings, func(f plan.Finding) string { return f.Target + ": " + f.Reason })
	assert.ElementsMatch(t, []string{
		"/etc/hosts: line 2 contains the old cluster's API server",
		"/etc/app.conf: line 2 contains the old cluster's API server",
		"/etc/kubernetes/admin.conf: line 3 contains the old cluster's API server",
		"/home/admin/join.sh: line 1 contains the old cluster's API server",
		"/var/lib/cloud/scripts/per-boot/own: line 1 contains the old cluster's API server",
		"/var/lib/kubelet/kubeconfig: line 1 contains the old cluster's API server",
	}, got)
}
