//go:build linux

package diskaudit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// lvm makes the volume group vg-0 of the partition $1 with the folders of $2: the
// folder root in a volume that lies in two places, and var and data in others. The
// bytes go where LVM says that the volumes lie.
const lvm = `t=$2 d=$(losetup -f --show "$1")
trap 'losetup -d $d' EXIT
l() {
	c=$1; shift
	$c -q -y --driverloaded n --config "devices{use_devicesfile=0 filter=[\"a|^$d\$|\",\"r|.*|\"]} backup{backup=0 archive=0}" "$@" 2> "$t.err" || { cat "$t.err" >&2; exit 1; }
}
new() { l lvcreate -an -Zn -Wn -l $2 -n $1 vg-0 > /dev/null; }
l pvcreate $d > /dev/null; l vgcreate -s 4M vg-0 $d > /dev/null
new root 2; new var 3; l lvextend -l +3 vg-0/root > /dev/null; new data 2
for name in root var data; do
	[ -d "$t/$name" ] || continue
	size=$(l lvs --noheadings --nosuffix --units k -o lv_size vg-0/$name)
	mke2fs -q -F -t ext4 -d "$t/$name" "$t.fs" "${size%.*}"
	at=0
	l lvs --noheadings -o seg_pe_ranges vg-0/$name > "$t.ranges"
	while read -r range; do
		pieces=${range#*:}; first=${pieces%-*}; n=$((${pieces#*-} - first + 1))
		dd if="$t.fs" of="$d" bs=1M skip=$((4 * at)) seek=$((1 + 4 * first)) count=$((4 * n)) conv=notrunc status=none
		at=$((at + n))
	done < "$t.ranges"
	rm "$t.fs"
done
sync "$d"`

// inVolume has files below the folder of a volume.
func inVolume(name string, files map[string]string) map[string]string {
	in := map[string]string{}
	for file, text := range files {
		in[name+"/"+file] = text
	}
	return in
}

func TestLogicalVolumesAreAudited(t *testing.T) {
	const mounts = "/dev/mapper/vg--0-root / ext4 defaults 0 1\n/dev/vg-0/var /var ext4 defaults 0 2\n"
	for name, c := range map[string]struct {
		fstab     string
		files     map[string]string
		result    plan.Result
		found     []string
		unchecked string
	}{
		"clean": {mounts, inVolume("var", map[string]string{"x/": ""}), plan.Clean, nil, ""},
		"leftovers on a volume": {
			strings.Replace(mounts, "defaults 0 2", "ro 0 2", 1), inVolume("var", map[string]string{"lib/kubelet/pki/kubelet-client-current.pem": "key"}),
			plan.Findings, []string{"kubelet-pki", "read-only-state"}, "",
		},
		"a volume without a place": {mounts, inVolume("data", map[string]string{"secret": "x"}), plan.Unknown, nil,
			"partition 1001 (ext4, 8.4 MB, logical volume vg-0/data) was not audited: the image does not say where this partition is mounted"},
	} {
		for _, format := range []string{"raw", "qcow2"} {
			t.Run(name+", "+format, func(t *testing.T) {
				t.Parallel()
				files := inVolume("root", root(map[string]string{"etc/fstab": c.fstab, "var/": ""}))
				for file, text := range c.files {
					files[file] = text
				}
				path := withParts(t, "gpt", part{typeLVM, lvm, files})
				if format == "qcow2" {
					testkit.Run(t, "qemu-img", "convert", "-O", "qcow2", path, path+".qcow2")
					path += ".qcow2"
				}
				before := testkit.Run(t, "sha256sum", path)
				r, err := audit(t, path, "not-a-node")
				require.NoError(t, err)
				assert.Equal(t, c.result, r.Result, "%s %v", r.Error, r.Plan)
				assert.Equal(t, c.found, found(r))
				assert.True(t, strings.HasPrefix(r.Error, c.unchecked), r.Error)
				assert.Equal(t, before, testkit.Run(t, "sha256sum", path), "the audit must not write")
				testkit.Released(t, path)
			})
		}
	}
}

// TestAWorkOnLogicalVolumes writes to volumes that lie in one place, and refuses others
// by name.
func TestAWorkOnLogicalVolumes(t *testing.T) {
	one := strings.Replace(lvm, "l lvextend -l +3 vg-0/root > /dev/null;", "", 1)
	given := given(t)
	for script, want := range map[string]string{
		one: "",
		lvm: "it lies in several places of the disk, which only an audit can read",
	} {
		path := withParts(t, "gpt", part{typeLVM, script, inVolume("root", root(nil))})
		_, layout, roots := laidOut(t, path)
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer file.Close()
		_, err = layout.Grow(file, roots[0].Number, 640<<20)
		require.ErrorContains(t, err, "the root is on a logical volume, which does not grow here; leave the size out")
		var size int64
		work := diskaudit.Work{Disk: file, Layout: layout, Roots: roots, Folder: given, Input: "nothing", Progress: t.Output()}
		if _, err = work.Run(t.Context(), &size); want == "" {
			require.NoError(t, err)
			assert.Greater(t, size, int64(6<<20))
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
