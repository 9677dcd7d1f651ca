//go:build linux

package disk

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// lvm is a script's preamble: the files pv and pv2, if it is there, become a volume
// group. The commands of LVM see no other device, and need no device mapper.
const lvm = `filter= d=
for f in pv*; do n=$(losetup -f --show $f); d="$d $n" filter="$filter\"a|^$n\$|\","; done
trap 'losetup -d $d' EXIT
l() {
	c=$1; shift
	$c -q -y --driverloaded n --config "devices{use_devicesfile=0 filter=[$filter\"r|.*|\"]} backup{backup=0 archive=0}" "$@" 2> err || { cat err >&2; exit 1; }
}
l pvcreate $d > out
l vgcreate -s 4M vg-0 $d > out
add() { n=$1; shift; l lvcreate -an -Zn -Wn -n $n "$@" vg-0 > out; }
`

// TestLogicalVolumes compares the places of volumes with those that LVM reports.
func TestLogicalVolumes(t *testing.T) {
	folder := t.TempDir()
	pv := sparse(t, filepath.Join(folder, "pv"), 200*mib)
	// The volume root grows after var, so it lies in two places.
	sh(t, folder, lvm+`
		add root -l 5; add var -l 6; l lvextend -l +7 vg-0/root > out; add my-data -l 2
		add wide --type striped -i 1 -l 1
		l pvs --noheadings --nosuffix --units b -o pe_start $d > start
		l lvs --noheadings --separator : -o lv_name,seg_pe_ranges,vg_extent_size --nosuffix --units b vg-0 > segments`)
	_, l := laidOut(t, pv)
	require.Empty(t, l.Notes)
	assert.True(t, l.Partitions[0].Opened)
	start, err := strconv.ParseInt(strings.TrimSpace(testkit.Content(t, filepath.Join(folder, "start"))), 10, 64)
	require.NoError(t, err)
	reported := map[string][]Range{}
	for line := range strings.Lines(testkit.Content(t, filepath.Join(folder, "segments"))) { // root:/dev/loop0:0-4:4194304
		f := strings.Split(strings.TrimSpace(line), ":")
		var first, last, extent int64
		_, err := fmt.Sscanf(f[2]+" "+f[3], "%d-%d %d", &first, &last, &extent)
		require.NoError(t, err, line)
		name := "vg-0/" + f[0]
		reported[name] = append(reported[name], Range{start + first*extent, (last - first + 1) * extent})
	}
	require.Len(t, reported["vg-0/root"], 2)
	found := map[string][]Range{}
	for _, v := range l.Volumes {
		assert.Empty(t, v.Elsewhere, v.Volume)
		assert.Equal(t, total(v.Extents), v.Length)
		found[v.Volume] = v.Extents
	}
	assert.Equal(t, reported, found)
}

// TestAGroupOfTwoPartitions reads a volume that lies in both. The text about the group is
// the newest one, and one of the partitions may have none.
func TestAGroupOfTwoPartitions(t *testing.T) {
	const volume = "\nadd root -l 40\n"
	again := func(options string) string {
		return strings.Replace(lvm, "l vgcreate", "l pvcreate "+options+" $n > out; l vgcreate", 1) + volume
	}
	for name, script := range map[string]string{
		"metadata in both":   lvm + volume,
		"no metadata":        again("--metadatacopies 0"),
		"old metadata":       lvm + "l pvchange --metadataignore y $n > out" + volume,
		"metadata at an end": again("--metadatacopies 2"),
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, pv := range []string{"pv1", "pv2"} {
				sparse(t, filepath.Join(folder, pv), 100*mib)
			}
			sh(t, folder, script)
			sh(t, folder, `truncate -s 202M disk
				printf '1M,100M,8e\n101M,100M,8e\n' | sfdisk -q disk
				dd if=pv1 of=disk bs=1M seek=1 conv=notrunc status=none
				dd if=pv2 of=disk bs=1M seek=101 conv=notrunc status=none`)
			_, l := laidOut(t, filepath.Join(folder, "disk"))
			require.Empty(t, l.Notes)
			require.Len(t, l.Volumes, 1)
			assert.Empty(t, l.Volumes[0].Elsewhere)
			assert.Equal(t, int64(160*mib), total(l.Volumes[0].Extents))
			assert.True(t, l.Partitions[0].Opened && l.Partitions[1].Opened)
		})
	}
}

func TestAVolumeInPiecesReadsInItsOrder(t *testing.T) {
	v := pieces{strings.NewReader("abcdefghi"), []Range{{4, 3}, {0, 2}, {8, 1}}}
	require.NoError(t, iotest.TestReader(io.NewSectionReader(v, 0, 6), []byte("efgabi")))
	n, err := v.ReadAt(make([]byte, 4), 3)
	assert.Equal(t, []any{3, io.EOF}, []any{n, err})
}

// TestVolumesThatAreNotRead has volumes with a remedy instead of a wrong root.
func TestVolumesThatAreNotRead(t *testing.T) {
	const two = "truncate -s 100M pv2\n"
	for name, c := range map[string]struct{ script, want string }{
		"striped":      {two + lvm + `add root -i 2 -L 8M`, "vg-0/root may have it, but it is striped; "},
		"another disk": {two + lvm + `add root -l 60`, "vg-0/root may have it, but a part of it is on another disk; "},
		"no volume":    {lvm, "no root file system found"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			pv := sparse(t, filepath.Join(folder, "pv"), 200*mib)
			sh(t, folder, c.script)
			_, l := laidOut(t, pv)
			_, err := l.Root(0)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestDamagedVolumes changes bytes of the metadata: no damage may be a wrong place.
func TestDamagedVolumes(t *testing.T) {
	folder := t.TempDir()
	pv := sparse(t, filepath.Join(folder, "pv"), 40*mib)
	sh(t, folder, lvm+`add root -l 5`)
	whole := []byte(testkit.Content(t, pv))
	_, l := laidOut(t, pv)
	require.Len(t, l.Volumes, 1)
	want := l.Volumes[0].Extents
	for _, at := range []int{512, 520, 528, 532, 536, 544, 576, 584, 600, 616, 4096, 4100, 4116, 4120, 4136, 4144, 4152, 4608, 5000, 5500} {
		put(t, pv, int64(at), []byte{whole[at] ^ 0x41})
		_, d := laidOut(t, pv)
		put(t, pv, int64(at), whole[at:at+1])
		for _, v := range d.Volumes {
			assert.Equal(t, want, v.Extents, "byte %d", at)
		}
	}
}

// The kernel must know device-mapper before LVM makes other types than linear and
// striped ones.
func TestOtherTypesOfVolumes(t *testing.T) {
	for kind, want := range map[string]string{
		"thin": "it is of the type thin", "raid1": "it is of the type raid1", "cache\x1b": `it is of the type cache\x1b`,
	} {
		group, err := parseLVM([]byte(strings.ReplaceAll(volumeText, "striped", kind)))
		require.NoError(t, err)
		l := &Layout{size: 100 * mib}
		l.addVolume(zeros{}, "vg", "root", group.section("vg"), nil)
		require.Len(t, l.Volumes, 1)
		assert.Equal(t, want, l.Volumes[0].Elsewhere)
	}
}

func TestTheNumberOfVolumesIsLimited(t *testing.T) {
	group, err := parseLVM([]byte(volumeText))
	require.NoError(t, err)
	volumes := group.section("vg").section("logical_volumes").sections
	for n := range mostVolumes {
		volumes[strconv.Itoa(n)] = volumes["root"]
	}
	l := &Layout{size: 100 * mib}
	for name := range volumes {
		l.addVolume(zeros{}, "vg", name, group.section("vg"), nil)
	}
	require.Len(t, l.Volumes, mostVolumes+1)
	assert.Equal(t, "only 256 logical volumes of a disk are read", l.Volumes[mostVolumes].Elsewhere)
}

// An audit copies a volume in several places, whose size the image must not choose.
func TestVolumesAtTheSamePlaceAreNotRead(t *testing.T) {
	const one = "segment_count = 1"
	twice := "segment_count = 2\n segment2 { extent_count = 5\n type = \"striped\"\n stripe_count = 1\n " +
		"stripes = [ \"pv0\", 4 ] }"
	for text, want := range map[string][]string{
		volumeText: {"", "another volume, or another part of it, is at the same place"},
		strings.Replace(volumeText, one, twice, 1): {"another volume, or another part of it, is at the same place"},
	} {
		group, err := parseLVM([]byte(text))
		require.NoError(t, err)
		l := &Layout{size: 100 * mib}
		for n := range want {
			l.addVolume(zeros{}, "vg", "root", group.section("vg"), pv0)
			assert.Equal(t, want[n], l.Volumes[n].Elsewhere)
		}
	}
}

// pv0 is the physical volume of volumeText.
var pv0 = map[string]physicalVolume{"p": {Partition: Partition{Range: Range{mib, 99 * mib}}}}

const volumeText = `vg {
	id = "x"
	extent_size = 8192 # 4 MiB
	logical_volumes { root { status = ["READ", "VISIBLE"]
		segment_count = 1
		segment1 { start_extent = 0
			extent_count = 5
			type = "striped"
			stripe_count = 1
			stripes = [ "pv0", 0 ] } } }
	physical_volumes { pv0 { id = "p"
		pe_start = 2048 } }
}`

func FuzzLVM(f *testing.F) {
	f.Add([]byte(volumeText))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseLVM(text)
		if err != nil {
			return
		}
		for name, group := range s.sections {
			for volume := range group.section("logical_volumes").sections {
				l := Layout{size: 100 * mib}
				l.addVolume(zeros{}, name, volume, group, pv0)
				for _, v := range l.Volumes {
					for _, e := range v.Extents {
						assert.True(t, e.Offset >= mib && e.End() <= 100*mib && e.Length > 0, "%v", e)
					}
				}
			}
		}
	})
}

type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }
