package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Kinds of a partition's content that are no Linux file system.
const (
	KindVFAT   = "vfat"
	KindSwap   = "swap"
	KindLUKS   = "LUKS"
	KindLVM    = "LVM physical volume"
	KindRAID   = "RAID member"
	KindVerity = "dm-verity hashes"
	// KindEmpty is a partition without a signature whose first MiB is zeros.
	KindEmpty = "empty"
)

// content is what a partition's signatures say.
type content struct{ kind, label, uuid string }

// probe reads the signatures of a partition of size bytes. Containers come first:
// with RAID metadata at the end, a member also looks like its file system.
func probe(r io.ReaderAt, size int64) content {
	for _, of := range []func(io.ReaderAt, int64) content{container, linuxFS, otherFS} {
		if c := of(r, size); c.kind != "" {
			return c
		}
	}
	if start, err := bytesAt(r, 0, int(min(size, 1<<20))); err == nil && allZero(start) {
		return content{kind: KindEmpty}
	}
	return content{}
}

// container recognizes what holds file systems inside.
func container(r io.ReaderAt, size int64) content {
	if has(r, 0, "LUKS\xba\xbe") {
		return content{kind: KindLUKS}
	}
	for sector := int64(0); sector < 4; sector++ {
		if has(r, sector*512, "LABELONE") && has(r, sector*512+24, "LVM2 001") {
			return content{kind: KindLVM}
		}
	}
	// Versions 1.1, 1.2, 1.0 and 0.90 of md's superblock.
	for _, at := range []int64{0, 4096, (size/512 - 16) &^ 7 * 512, size&^0xffff - 0x10000} {
		if at >= 0 && has(r, at, "\xfc\x4e\x2b\xa9") {
			return content{kind: KindRAID}
		}
	}
	return content{}
}

// linuxFS recognizes file systems that can hold a root.
func linuxFS(r io.ReaderAt, _ int64) content {
	if super, err := bytesAt(r, 1024, 1024); err == nil {
		if binary.LittleEndian.Uint16(super[56:]) == extMagic {
			return content{extKind(super), padded(super[120:136]), show.UUID(super[104:])}
		}
		if binary.LittleEndian.Uint32(super) == 0xe0f5e1e2 {
			return content{"erofs", padded(super[64:80]), show.UUID(super[48:])}
		}
		if binary.LittleEndian.Uint32(super) == 0xf2f52010 {
			return content{"f2fs", utf16Text(super[124:636]), show.UUID(super[108:])}
		}
	}
	if super, err := bytesAt(r, 0, 512); err == nil {
		switch string(super[:4]) {
		case "XFSB":
			return content{"xfs", padded(super[108:120]), show.UUID(super[32:])}
		case "hsqs":
			return content{kind: "squashfs"}
		}
	}
	if super, err := bytesAt(r, 64<<10, 1024); err == nil && string(super[64:72]) == "_BHRfS_M" {
		return content{"btrfs", padded(super[0x12b : 0x12b+256]), show.UUID(super[32:])}
	}
	return content{}
}

// otherFS recognizes file systems and areas that hold no root.
func otherFS(r io.ReaderAt, _ int64) content {
	if has(r, 0, "verity\x00\x00") {
		return content{kind: KindVerity}
	}
	for _, page := range []int64{4 << 10, 16 << 10, 64 << 10} {
		if has(r, page-10, "SWAPSPACE2") || has(r, page-10, "SWAP-SPACE") {
			label, _ := bytesAt(r, 1052, 16)
			return content{kind: KindSwap, label: padded(label)}
		}
	}
	boot, err := bytesAt(r, 0, 512)
	switch {
	case err != nil:
		return content{}
	case string(boot[3:11]) == "NTFS    ":
		return content{kind: "ntfs"}
	case string(boot[3:11]) == "EXFAT   ":
		return content{kind: "exfat"}
	}
	if f, err := openFAT(r); err == nil {
		return content{KindVFAT, f.label, f.serial}
	}
	return content{}
}

// isLinux reports whether a file system can be a root. Journals of ext4 on a
// device of their own cannot.
func isLinux(kind string) bool {
	return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "squashfs", "erofs", "f2fs"}, kind)
}

// freeSpace returns what the file system says is free, and the number of bytes
// that belong to the file system. The error is why the partition travels whole.
func freeSpace(kind string, r io.ReaderAt, size int64) (*ranges, int64, error) {
	switch kind {
	case "ext2", "ext3", "ext4":
		return extFree(r, size)
	case "xfs":
		return xfsFree(r, size)
	case KindVFAT:
		return fatFree(r, size)
	case "":
		return nil, 0, errors.New("content unknown")
	case KindEmpty:
		return nil, 0, errors.New("no file system")
	}
	return nil, 0, errors.New("free space in " + kind + " is not read")
}

// unreplayed reports whether the file system's journal has changes that are not in
// place yet.
func unreplayed(kind string, r io.ReaderAt) bool {
	switch kind {
	case "ext3", "ext4":
		f, err := openExt(r)
		return err == nil && f.incompat&incompatRecover != 0
	case "xfs":
		f, err := openXFS(r)
		return err == nil && f.logStart != 0 && f.agLog < 32 && f.block <= 64<<10 && f.checkLog() != nil
	case "btrfs":
		// The tree of fsync's log: log_root of the superblock.
		super, err := bytesAt(r, 64<<10, 128)
		return err == nil && binary.LittleEndian.Uint64(super[96:]) != 0
	}
	return false
}

// elsewhere says what part of a file system is on another device that its superblock
// names. Linux opens such devices of the machine that mounts: the kernel's fs/ext4/super.c,
// fs/btrfs/volumes.c, fs/erofs/super.c (until 6.3) and fs/f2fs/super.c.
func elsewhere(kind string, r io.ReaderAt) string {
	le := binary.LittleEndian
	switch kind {
	case "ext2", "ext3", "ext4":
		s, err := bytesAt(r, 1024, 1024)
		if err == nil && le.Uint32(s[92:])&compatHasJournal != 0 && le.Uint32(s[224:]) == 0 || err == nil &&
			bytes.Contains(s[512:576], []byte("journal_")) {
			return "its journal is on another device"
		}
	case "btrfs":
		if s, err := bytesAt(r, 64<<10, 144); err == nil && le.Uint64(s[136:]) != 1 {
			return fmt.Sprintf("its data is on %d devices", le.Uint64(s[136:]))
		}
	case "erofs":
		if s, err := bytesAt(r, 1024, 128); err == nil && le.Uint32(s[80:])&0x8 != 0 && le.Uint16(s[86:]) != 0 {
			return fmt.Sprintf("its data is on %d more devices", le.Uint16(s[86:]))
		}
	case "f2fs":
		// The second superblock counts if the first is damaged. It is a page later.
		for _, at := range []int64{0, 4 << 10, 16 << 10, 64 << 10} {
			if s, err := bytesAt(r, at+1024, 2202); err == nil && le.Uint32(s) == 0xf2f52010 && s[2201] != 0 {
				return "its data is on several devices"
			}
		}
	}
	return ""
}

// utf16Text is a label in UTF-16 that is padded with zeros.
func utf16Text(p []byte) string {
	units := make([]uint16, len(p)/2)
	for n := range units {
		units[n] = binary.LittleEndian.Uint16(p[2*n:])
	}
	name, _, _ := strings.Cut(string(utf16.Decode(units)), "\x00")
	return show.Line(name)
}

// padded is a label that is padded with zeros or spaces.
func padded(p []byte) string {
	p, _, _ = bytes.Cut(p, []byte{0})
	return show.Line(strings.TrimRight(string(p), " "))
}

func allZero(p []byte) bool {
	for len(p) >= 8 {
		if binary.NativeEndian.Uint64(p) != 0 {
			return false
		}
		p = p[8:]
	}
	return len(bytes.Trim(p, "\x00")) == 0
}
