package disk

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// patched is an image with other bytes at an offset.
type patched struct {
	base  []byte
	at    int64
	patch []byte
}

func (p patched) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(p.base)) {
		return 0, io.EOF
	}
	n := copy(b, p.base[off:])
	for _, r := range within([]Range{{p.at, int64(len(p.patch))}}, Range{off, int64(n)}) {
		copy(b[r.Offset-off:], p.patch[r.Offset-p.at:r.End()-p.at])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Zero says that nothing is known.
func (patched) Zero(int64, int64) bool { return false }

// fuzzed patches images that scripts make, at offsets that decide much.
func fuzzed(f *testing.F, offsets []int64, scripts []string, try func(t *testing.T, r io.ReaderAt, size int64)) {
	var bases [][]byte
	for i, script := range scripts {
		folder := f.TempDir()
		sh(f, folder, script)
		base, err := os.ReadFile(filepath.Join(folder, "image"))
		require.NoError(f, err)
		bases = append(bases, base)
		for _, off := range offsets {
			off = min(off, int64(len(base))-1)
			f.Add(uint8(i), off, base[off:min(int(off)+64, len(base))])
			f.Add(uint8(i), off, []byte{0xff, 0xff, 0xff, 0xff})
			f.Add(uint8(i), off, make([]byte, 16))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, off int64, patch []byte) {
		base := bases[int(which)%len(bases)]
		if off < 0 || len(patch) > 4096 {
			return
		}
		try(t, patched{base, off % int64(len(base)), patch}, int64(len(base)))
	})
}

// isSound fails if ranges are out of order or not in the disk.
func isSound(t *testing.T, list []Range, size int64) {
	t.Helper()
	end := int64(-1)
	for _, r := range list {
		require.True(t, r.Offset > end && r.Length > 0 && r.End() <= size, "%v after %d, in %d", r, end, size)
		end = r.End()
	}
}

func FuzzTable(f *testing.F) {
	fuzzed(f, []int64{446, 462, 512, 584, 592, 1024, 1056, 65536 - 512, 40 * 512, 40*512 + 446}, []string{
		`truncate -s 64K image; printf 'label: gpt\nfirst-lba: 34\n1 : start=40, size=20\n2 : size=10\n' | sfdisk -q image`,
		`truncate -s 64K image; printf 'label: dos\n1 : start=10, size=20\n2 : start=40, size=80, type=5\n5 : start=42, size=10\n6 : start=60, size=10\n' | sfdisk -q image`,
		`truncate -s 200K image; mke2fs -q -F -b 1024 -O none image; printf '\125\252' | dd of=image bs=1 seek=510 conv=notrunc status=none`,
	}, func(t *testing.T, r io.ReaderAt, size int64) {
		l, err := inspect(r, size)
		if err != nil {
			return
		}
		isSound(t, l.Free, size)
		require.NotEmpty(t, l.Partitions)
		_, _ = l.Root(0)
		require.Equal(t, l.UsedBytes()+total(l.Free), size)
	})
}

func FuzzExt(f *testing.F) {
	fuzzed(f, []int64{1028, 1044, 1056, 1064, 1116, 1120, 1124, 1230, 1278, 1284, 1612, 2048, 2060, 2066, 2080}, []string{
		`truncate -s 200K image; mke2fs -q -F -b 1024 -O none image`,
		`truncate -s 900K image; mke2fs -q -F -t ext4 -b 1024 -g 256 -O ^metadata_csum,^uninit_bg,^has_journal,meta_bg,^resize_inode image`,
		`truncate -s 900K image; mke2fs -q -F -t ext4 -b 1024 -O ^metadata_csum,^uninit_bg,^has_journal,bigalloc -C 4096 image`,
		`truncate -s 400K image; mke2fs -q -F -t ext4 -b 1024 -O ^has_journal image`,
	}, func(t *testing.T, r io.ReaderAt, size int64) {
		_ = unreplayed("ext4", r)
		if free, end, err := extFree(r, size); err == nil {
			isSound(t, free.list, end)
			require.LessOrEqual(t, end, size)
		}
	})
}

func FuzzXFS(f *testing.F) {
	fuzzed(f, []int64{4, 8, 48, 84, 88, 96, 100, 124, 512, 516, 528, 540, 564, 4096, 4100, 4102, 4112}, []string{
		`truncate -s 20M image; mkfs.xfs -q -f -m crc=0,finobt=0 -d agcount=1 -l size=8m image`,
		`truncate -s 20M image; mkfs.xfs -q -f -d agcount=1 -l size=8m image`,
	}, func(t *testing.T, r io.ReaderAt, size int64) {
		_ = unreplayed("xfs", r)
		if free, end, err := xfsFree(r, size); err == nil {
			isSound(t, free.list, end)
			require.LessOrEqual(t, end, size)
		}
	})
}

func FuzzFAT(f *testing.F) {
	const loader = `; head -c 3000 /dev/urandom > x; mmd -i image ::/EFI ::/EFI/BOOT; mcopy -i image x ::/EFI/BOOT/BOOTX64.EFI`
	fuzzed(f, []int64{11, 13, 14, 16, 17, 19, 22, 32, 36, 44, 512, 515, 2048, 8192, 16384, 16404}, []string{
		`truncate -s 128K image; mkfs.vfat -F 12 -s 1 image` + loader,
		`truncate -s 5M image; mkfs.vfat -F 16 -s 2 image` + loader,
		`truncate -s 34M image; mkfs.vfat -F 32 -s 1 image` + loader,
	}, func(t *testing.T, r io.ReaderAt, size int64) {
		if free, end, err := fatFree(r, size); err == nil {
			isSound(t, free.list, end)
		}
		l := &Layout{size: size, Partitions: []Partition{{Range: Range{0, size}, Kind: KindVFAT}}}
		l.findBoot(r)
	})
}

func FuzzQcow2(f *testing.F) {
	const made = `seq 100000 > numbers; truncate -s 1M numbers; qemu-img convert -f raw -O qcow2 `
	fuzzed(f, []int64{0, 4, 8, 20, 24, 32, 36, 40, 72, 100, 104, 196608, 262144, 262152}, []string{
		made + `numbers image`,
		made + `-c numbers image`,
		made + `-c -o compression_type=zstd numbers image`,
		made + `-o compat=0.10,cluster_size=4096 numbers image`,
	}, func(t *testing.T, r io.ReaderAt, size int64) {
		d := &Image{path: "image"}
		if !isQcow2(r) || d.openQcow2(r, size) != nil {
			return
		}
		isSound(t, d.data, d.size)
		p := make([]byte, BlockSize)
		for off := int64(0); off < min(d.size, 4*mib); off += BlockSize {
			_, _ = d.ReadAt(p, off)
		}
	})
}

func FuzzVHD(f *testing.F) {
	fuzzed(f, []int64{0, 40 << 10, 40<<10 + 48, 40<<10 + 60, 40<<10 + 64}, []string{
		`truncate -s 40K disk; qemu-img convert -f raw -O vpc -o subformat=fixed,force_size=on disk image`,
		`truncate -s 40K disk; qemu-img convert -f raw -O vpc disk image`,
	}, func(t *testing.T, r io.ReaderAt, size int64) {
		_ = refuse(r, size, "image")
		if disk, err := withoutFooter(r, size, "image"); err == nil {
			require.LessOrEqual(t, disk, size)
		}
	})
}
