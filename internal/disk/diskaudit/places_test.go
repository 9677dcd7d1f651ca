//go:build linux

package diskaudit_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Types of the Discoverable Partitions Specification, for x86-64.
const (
	typeLinux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
	typeRoot  = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
	typeUsr   = "8484680C-9521-48C6-9C11-B0720656F69E"
	typeVar   = "4D21B016-B534-45C2-A9FB-5C16E091FD2D"
	typeTmp   = "7EC6F557-3BC5-4ACA-B293-16EF5DF639D1"
	typeHome  = "933AC7E1-2EB4-4F13-B844-0E14E2AEF915"
	typeSrv   = "3B8F8425-20E0-4F3B-907F-1A25A76F98E8"
	typeBoot  = "BC13C2FF-59E6-4262-A352-B275FD6F7172"
	typeLVM   = "E6D6D379-F507-44C2-A23C-238F2A3DF928"
)

// part is a partition of a disk that a test makes: its type, a script that makes the
// file system in $1 of the files in $2, and the files.
type part struct {
	kind, script string
	files        map[string]string
}

const (
	ext4 = `mke2fs -q -F -t ext4 -d "$2" "$1"`
	xfs  = `mkfs.xfs -q "$1"; mount -o loop "$1" /mnt; cp -a "$2/." /mnt; umount /mnt`
	// btrfs ends with a mounted file system.
	btrfs = `mkfs.btrfs -q "$1"; mount -o loop "$1" /mnt; `
)

// withParts makes a raw disk with these partitions of 64 MiB, or what mkfs.xfs needs.
func withParts(t *testing.T, label string, parts ...part) string {
	t.Helper()
	size := 64
	for _, p := range parts {
		if strings.Contains(p.script, "xfs") || strings.Contains(p.script, "btrfs") {
			size = 320
		}
	}
	path := filepath.Join(t.TempDir(), "disk.raw")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, int64(len(parts)*size+4)<<20))
	table := "label: " + label + "\nlabel-id: 0x12345678\n"
	if label == "gpt" {
		table = "label: gpt\n"
	}
	for i, p := range parts {
		table += fmt.Sprintf("start=%d, size=%dM, type=%s, name=part%d", 2048*(1+i*size), size, p.kind, i+1)
		if label == "gpt" {
			table += fmt.Sprintf(", uuid=00000000-0000-4000-8000-%012d", i+1)
		}
		table += "\n"
	}
	cmd := exec.Command("sfdisk", "-q", path)
	cmd.Stdin = strings.NewReader(table)
	testkit.Output(t, cmd)
	for i, p := range parts {
		root, image := t.TempDir(), filepath.Join(t.TempDir(), "part")
		hosttest.Lay(t, root, p.files)
		require.NoError(t, os.WriteFile(image, nil, 0o600))
		require.NoError(t, os.Truncate(image, int64(size)<<20))
		testkit.Run(t, "unshare", "--mount", "sh", "-euc", p.script, "sh", image, root)
		testkit.Run(t, "dd", "if="+image, "of="+path, "bs=1M", fmt.Sprintf("seek=%d", 1+i*size),
			"conv=notrunc,sparse", "status=none")
	}
	return path
}

// root is a root file system without findings, with these files added.
func root(files map[string]string) map[string]string {
	all := map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=13\n", "var/": "", "usr/": "", "home/": "", "srv/": "", "boot/": ""}
	maps.Copy(all, files)
	return all
}

func found(r plan.Report) []string {
	return show.Each(r.Plan, func(p plan.Planned) string { return p.Item })
}

// TestWhatLiesOnOtherPartitionsIsAudited has a node's state on a partition that is not
// the root.
func TestWhatLiesOnOtherPartitionsIsAudited(t *testing.T) {
	kubelet := map[string]string{"lib/kubelet/pki/kubelet-client-current.pem": "certificate"}
	fstab := func(line string) map[string]string { return root(map[string]string{"etc/fstab": line + "\n"}) }
	const uuid = "c0ffee00-0000-4000-8000-00000000000a"
	for name, parts := range map[string][]part{
		"UUID":          {{typeRoot, ext4, fstab("UUID=" + uuid + " /var ext4 defaults 0 2")}, {typeLinux, ext4 + " -U " + uuid, kubelet}},
		"quoted UUID":   {{typeRoot, ext4, fstab(`UUID="` + strings.ToUpper(uuid) + `" /var ext4 defaults 0 2`)}, {typeLinux, ext4 + " -U " + uuid, kubelet}},
		"LABEL":         {{typeRoot, ext4, fstab(`LABEL=the\040var /var/ auto nofail 0 2`)}, {typeLinux, ext4 + ` -L "the var"`, kubelet}},
		"PARTUUID":      {{typeRoot, ext4, fstab("PARTUUID=00000000-0000-4000-8000-000000000002 /var xfs defaults 0 2")}, {typeLinux, xfs, kubelet}},
		"PARTLABEL":     {{typeRoot, ext4, fstab("PARTLABEL=part2 /var ext4")}, {typeLinux, ext4, kubelet}},
		"by-uuid":       {{typeRoot, ext4, fstab("/dev/disk/by-uuid/" + uuid + " /var ext4")}, {typeLinux, ext4 + " -U " + uuid, kubelet}},
		"by-partlabel":  {{typeRoot, ext4, fstab("/dev/disk/by-partlabel/part2 /var ext4")}, {typeLinux, ext4, kubelet}},
		"nvme":          {{typeRoot, ext4, fstab("/dev/nvme0n1p2 /var ext4")}, {typeLinux, ext4, kubelet}},
		"a second disk": {{typeRoot, ext4, fstab("/dev/sdb1 / ext4\n/dev/sdb2 /var ext4")}, {typeLinux, ext4, kubelet}},
		"its type":      {{typeRoot, ext4, root(nil)}, {typeVar, ext4, kubelet}},
		"a unit":        {{typeRoot, ext4, root(map[string]string{"etc/systemd/system/var.mount": "[Unit]\nDescription=x\n[Mount]\nWhat = /dev/disk/by-label/data\nWhere=/var\n"})}, {typeLinux, ext4 + " -L data", kubelet}},
		"a deep place": {{typeRoot, ext4, root(map[string]string{"etc/fstab": "LABEL=k /var/lib/kubelet xfs\nLABEL=v /var ext4\n"})},
			{typeLinux, xfs + `; xfs_admin -L k "$1"`, map[string]string{"pki/kubelet-client-current.pem": "x"}}, {typeLinux, ext4 + " -L v", map[string]string{"lib/kubelet/": ""}}},
		"a link":          {{typeRoot, ext4, root(map[string]string{"etc/fstab": "LABEL=d /data ext4\n", "data/": "", "var/lib/kubelet": "-> /data/kubelet"})}, {typeLinux, ext4 + " -L d", map[string]string{"kubelet/pki/kubelet-client-current.pem": "x"}}},
		"a linked place":  {{typeRoot, ext4, map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=13\n", "etc/fstab": "LABEL=d /var ext4\n", "real/": "", "var": "-> /real"}}, {typeLinux, ext4 + " -L d", kubelet}},
		"/usr by type":    {{typeRoot, ext4, map[string]string{"etc/os-release": "-> ../usr/lib/os-release", "usr/": "", "var/lib/kubelet/pki/kubelet-client-current.pem": "x"}}, {typeUsr, ext4, map[string]string{"lib/os-release": "ID=debian\nVERSION_ID=13\n"}}},
		"/usr in squash":  {{typeRoot, ext4, map[string]string{"usr/": "", "var/lib/kubelet/pki/kubelet-client-current.pem": "x"}}, {typeUsr, `mksquashfs "$2" "$1" -noappend -quiet -no-progress`, map[string]string{"lib/os-release": "ID=debian\nVERSION_ID=13\n"}}},
		"unlabelled root": {{typeLinux, ext4, kubelet}, {typeLinux, ext4, fstab("PARTUUID=00000000-0000-4000-8000-000000000001 /var ext4")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := withParts(t, "gpt", parts...)
			if name == "UUID" { // "quoted UUID" has the same disk, raw
				testkit.Run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", path, path+".qcow2")
				path += ".qcow2"
			}
			r, err := audit(t, path)
			require.NoError(t, err)
			assert.Equal(t, plan.Findings, r.Result, r.Error)
			assert.Contains(t, found(r), "kubelet-pki")
			assert.Empty(t, r.Warnings)
			testkit.Released(t, path)
		})
	}
}

// TestWhatIsNotAuditedIsSaid has partitions that travel in the AMI, and that the audit
// cannot read: such a disk is not clean.
func TestWhatIsNotAuditedIsSaid(t *testing.T) {
	plain := part{typeRoot, ext4, root(nil)}
	fstab := func(lines ...string) part {
		return part{typeRoot, ext4, root(map[string]string{"etc/fstab": strings.Join(lines, "\n"), "data/a": "x"})}
	}
	secret := part{typeLinux, ext4 + " -L data", map[string]string{"secret": "x"}}
	const about = `partition 2 (ext4, 67.1 MB, label "data")`
	for name, c := range map[string]struct {
		parts []part
		// unchecked is the report's error, and note its warning.
		unchecked, note string
	}{
		"clean":                 {[]part{plain}, "", ""},
		"a stray partition":     {[]part{plain, secret}, about + " was not audited: the image does not say where this partition is mounted; name the partition in /etc/fstab, or remove it", ""},
		"an empty partition":    {[]part{plain, {typeLinux, ext4, nil}}, "", ""},
		"a swap partition":      {[]part{fstab("UUID=x none swap sw 0 0"), {"swap", `mkswap -q "$1"`, nil}}, "", ""},
		"a used swap partition": {[]part{plain, {"swap", `mkswap -q "$1"; echo secret | dd of="$1" bs=1M seek=50 conv=notrunc status=none`, nil}}, `partition 2 (swap, 67.1 MB, name "part2") has memory of the machine, which can contain secrets; overwrite the partition with zeros and run mkswap, or build the image without swap`, ""},
		"LVM":                   {[]part{plain, {"lvm", `d=$(losetup -f --show "$1"); pvcreate -q -y --config 'devices{use_devicesfile=0}' $d > /dev/null 2>&1 || f=1; losetup -d $d; [ -z "${f-}" ]`, nil}}, `partition 2 (LVM physical volume, 67.1 MB, name "part2") was not audited: what is inside LVM physical volume is not read; build the image without that`, ""},
		"LUKS":                  {[]part{fstab("/dev/mapper/data /data ext4 nofail"), {typeLinux, `printf x | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" -`, nil}}, `partition 2 (LUKS, 67.1 MB, name "part2") was not audited: what is inside LUKS is not read; build the image without that`, ""},
		"another volume":        {[]part{fstab("# UUID=1 /x ext4", "", "UUID=c0ffee /data ext4 defaults 0 2")}, "", "/etc/fstab line 3: /data is on UUID=c0ffee, which this disk does not have: without that volume and without nofail, the machine does not boot"},
		"another volume, maybe": {[]part{fstab("/dev/nvme1n1 /data ext4 nofail", "/dev/sr0 /media/cdrom0 udf,iso9660 user,noauto")}, "", ""},
		"no block device":       {[]part{fstab("proc /proc proc", "tmpfs /tmp tmpfs", "10.0.0.1:/x /mnt nfs4 _netdev", "/dev/sda9 none swap nofail")}, "", ""},
		"no such folder":        {[]part{fstab("LABEL=data /missing ext4"), secret}, "/etc/fstab line 1: " + about + `: the image has no folder /missing to mount this partition; make the folder`, ""},
		"mounted twice":         {[]part{fstab("LABEL=data /srv ext4", "LABEL=data /home ext4"), {typeLinux, ext4 + " -L data", nil}}, `/etc/fstab line 1: /srv has ` + about + `, which is mounted at /home too; mount each file system once`, ""},
		"a bind mount":          {[]part{fstab("/data /home none bind")}, "/etc/fstab line 1: /home is a bind mount of /data, whose files were not audited at /home; make /home a link to that folder, or leave the folder empty", ""},
		"empty bind mounts":     {[]part{fstab("/srv /home none bind", "/tmp /var/tmp none rw,bind", "/nothing /opt none bind")}, "", ""},
		"damaged":               {[]part{fstab("LABEL=data /data ext4"), {typeLinux, ext4 + ` -L data; dd if=/dev/zero of="$1" bs=4096 seek=1 count=70 conv=notrunc status=none`, nil}}, "/etc/fstab line 1: mounting " + about + " at /data: ext4, at byte 68157440: ", ""},
		"two of a type":         {[]part{plain, {typeVar, ext4 + " -L a", nil}, {typeVar, ext4 + " -L b", map[string]string{"x": ""}}}, `partition 3 (ext4, 67.1 MB, label "b") was not audited: the image does not say where this partition is mounted; name the partition in /etc/fstab, or remove it`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := withParts(t, "gpt", c.parts...)
			r, err := audit(t, path, "not-a-node")
			require.NoError(t, err)
			if c.unchecked == "" {
				assert.Equal(t, plan.Clean, r.Result, "%s %v", r.Error, r.Plan)
			} else {
				assert.Equal(t, plan.Unknown, r.Result)
				assert.True(t, strings.HasPrefix(r.Error, c.unchecked), r.Error)
			}
			assert.Equal(t, c.note, strings.Join(r.Warnings, "\n"))
			testkit.Released(t, path)
		})
	}
}

// TestTheRootAmongSeveral has disks whose tables do not say which partition is the root.
func TestTheRootAmongSeveral(t *testing.T) {
	a, b := part{typeLinux, ext4 + " -L a", root(nil)}, part{typeLinux, ext4 + " -L b", root(nil)}
	data := part{typeLinux, ext4 + " -L c", map[string]string{"x": "y"}}
	_, err := audit(t, withParts(t, "gpt", a, b, data))
	assert.ErrorContains(t, err, `: several partitions can be the root: 1 (ext4, 67.1 MB, label "a"), 2 (ext4, 67.1 MB, label "b"); give the number of the root partition`)
	_, err = audit(t, withParts(t, "gpt", data, data))
	assert.ErrorContains(t, err, `: several partitions can be the root: 1 (ext4, 67.1 MB, label "c"), 2 (ext4, 67.1 MB, label "c"); give the number of the root partition`)
	r, err := audit(t, withParts(t, "gpt", data, b), "not-a-node")
	require.NoError(t, err)
	assert.Equal(t, 2, r.Machine.Partition)

	second := diskaudit.Audit{Root: 2, Spec: scrub.Spec{Skip: []string{"not-a-node"}}}
	r, err = second.File(t.Context(), withParts(t, "gpt", a, b))
	require.NoError(t, err)
	assert.Equal(t, 2, r.Machine.Partition)
	assert.Equal(t, plan.Unknown, r.Result)
	assert.Equal(t, `partition 1 (ext4, 67.1 MB, label "a") was not audited: the partition has another root; audit the disk again with this root partition, or remove the partition`, r.Error)
}
