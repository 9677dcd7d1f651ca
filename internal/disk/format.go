package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// signature is what files of a format that is not supported have at an offset.
type signature struct {
	offset int64
	magic  string
	// what names the format in the error.
	what string
	// driver is the name for `qemu-img convert -f`, or "".
	driver string
	// remedy is what helps instead. {} becomes the file's name.
	remedy string
}

// signatures is the table of formats that Open refuses by their first bytes.
func signatures() []signature {
	return []signature{
		{0, "KDMV", "VMDK", "vmdk", ""},
		{0, "COWD", "VMDK of ESX", "vmdk", ""},
		{0, "# Disk DescriptorFile", "VMDK descriptor", "vmdk", ""},
		{0, "vhdxfile", "VHDX", "vhdx", ""},
		{64, "\x7f\x10\xda\xbe", "VDI", "vdi", ""},
		{0, "QED\x00", "QED", "qed", ""},
		{0, "QFI\xfb\x00\x00\x00\x01", "qcow version 1", "qcow", ""},
		{0, "WithoutFreeSpace", "Parallels", "parallels", ""},
		{0, "WithouFreSpacExt", "Parallels", "parallels", ""},
		{0, "Bochs Virtual HD Image", "Bochs", "bochs", ""},
		{0, "#!/bin/sh\n#V2.0 Format\n", "cloop", "cloop", ""},
		{0, "shdw", "Apple sparse image", "", "write it to a raw file with Apple's tools first"},
		{0, "\x1f\x8b", "gzip", "", "unpack the file first: gunzip -k {}"},
		{0, "\xfd7zXZ\x00", "xz", "", "unpack the file first: unxz -k {}"},
		{0, "\x28\xb5\x2f\xfd", "zstd", "", "unpack the file first: unzstd {}"},
		{0, "BZh", "bzip2", "", "unpack the file first: bunzip2 -k {}"},
		{0, "\x04\x22\x4d\x18", "lz4", "", "unpack the file first: unlz4 {}"},
		{0, "LZIP", "lzip", "", "unpack the file first: lzip -dk {}"},
		{0, "PK\x03\x04", "zip", "", "unpack the file first: unzip {}"},
		{0, "7z\xbc\xaf\x27\x1c", "7-Zip", "", "unpack the file first: 7z x {}"},
		{257, "ustar", "tar or OVA archive", "", "unpack the file first: tar -xf {}, then convert the disk in it: " +
			"qemu-img convert -f vmdk -O raw DISK.vmdk disk.raw"},
		{32769, "CD001", "ISO 9660", "",
			"an installation medium is no disk: install a machine from it, and import the machine's disk"},
	}
}

// refuse returns an error if the file has a format that is not supported.
func refuse(r io.ReaderAt, size int64, path string) error {
	for _, s := range signatures() {
		if !has(r, s.offset, s.magic) {
			continue
		}
		if err := refuseOthers(r, s.driver, s.what); err != nil {
			return err
		}
		if s.driver != "" {
			return unsupported(s.what, s.driver, path)
		}
		return fmt.Errorf("the format %s is not supported; %s", s.what,
			strings.ReplaceAll(s.remedy, "{}", quoted(path)))
	}
	if size >= 512 && has(r, size-512, "koly") {
		return unsupported("DMG", "dmg", path)
	}
	return nil
}

// unsupported is the error about a format that qemu-img converts.
func unsupported(what, driver, path string) error {
	return fmt.Errorf("the format %s is not supported; convert the image: %s", what, convert(driver, path))
}

// ToQcow2 is the command that makes a qcow2 image of a raw one.
func ToQcow2(path string) string {
	return fmt.Sprintf("qemu-img convert -f raw -O qcow2 %s %s", quoted(path),
		quoted(strings.TrimSuffix(path, filepath.Ext(path))+".qcow2"))
}

// convert is the command that makes a raw image.
func convert(driver, path string) string {
	to := strings.TrimSuffix(path, filepath.Ext(path)) + ".raw"
	if to == path {
		to = path + ".raw"
	}
	return fmt.Sprintf("qemu-img convert -f %s -O raw %s %s", driver, quoted(path), quoted(to))
}

// quoted is a file name as a shell and its programs read it.
func quoted(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return show.ShellWord(path)
}

// has reports whether the bytes at an offset are these.
func has(r io.ReaderAt, off int64, magic string) bool {
	p, err := bytesAt(r, off, len(magic))
	return err == nil && string(p) == magic
}

func bytesAt(r io.ReaderAt, off int64, n int) ([]byte, error) {
	p := make([]byte, n)
	if got, err := r.ReadAt(p, off); got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return p, nil
}

const (
	// footerSize is the size of a VHD's footer. Old versions of Virtual PC
	// wrote 511 bytes.
	footerSize    = 512
	oldFooterSize = 511
	// fixed is the type of a VHD that has the disk's bytes as they are.
	fixed = 2
)

// withoutFooter returns the size of the disk in a raw file or a fixed VHD. The
// source is Microsoft's Virtual Hard Disk Image Format Specification.
func withoutFooter(r io.ReaderAt, size int64, path string) (int64, error) {
	for _, length := range []int64{footerSize, oldFooterSize} {
		if size >= length && has(r, size-length, "conectix") {
			footer, err := bytesAt(r, size-length, int(length))
			if err != nil {
				return 0, err
			}
			return size - length, checkFooter(footer, size-length, path)
		}
	}
	if has(r, 0, "conectix") {
		return 0, errors.New("the VHD is truncated: its first sector is a copy of a footer, but the footer at the " +
			"end is missing; copy the file again")
	}
	if strings.EqualFold(filepath.Ext(path), ".vhd") {
		return 0, errors.New("the VHD is truncated: the footer at the end is missing; copy the file again, or " +
			"rename the file to .raw if it is a raw disk")
	}
	return size, nil
}

// checkFooter returns an error if the footer is not that of a fixed VHD whose
// disk has size bytes.
func checkFooter(footer []byte, size int64, path string) error {
	var sum uint32
	for i, b := range footer {
		if i < 64 || i >= 68 {
			sum += uint32(b)
		}
	}
	if stored := binary.BigEndian.Uint32(footer[64:]); stored != ^sum {
		return fmt.Errorf("the VHD's footer is damaged: its checksum is %08x, not %08x; copy the file again", stored,
			^sum)
	}
	switch kind := binary.BigEndian.Uint32(footer[60:]); kind {
	case fixed:
	case 3:
		return unsupported("dynamic VHD", "vpc", path)
	case 4:
		return unsupported("differencing VHD", "vpc", path)
	default:
		return unsupported(fmt.Sprintf("VHD of type %d", kind), "vpc", path)
	}
	if current := binary.BigEndian.Uint64(footer[48:]); current != uint64(size) {
		return fmt.Errorf("the VHD is truncated or damaged: its footer says that the disk has %d bytes, but the "+
			"file has %d; copy the file again", current, size)
	}
	if size == 0 {
		return errors.New("the VHD's disk has 0 bytes")
	}
	return nil
}

// vmdkParent and vmdkExtent match the other files that a VMDK names, as qemu reads them: a
// parent anywhere in the text, and extents with the data, with the blanks of scanf(3).
var (
	vmdkParent = show.Regexp(`(?s)parentFileNameHint..([^"]+)"`)
	vmdkExtent = show.Regexp(`(?:RW|RDONLY|NOACCESS)[\s\v]+[+-]?\d+[\s\v]*[^\s\v"]{1,9}[\s\v]*"([^"]+)"`)
)

// refuseOthers returns an error if an image takes data from another file. A conversion would
// put the content of that file into its result, and the image chooses the file.
func refuseOthers(r io.ReaderAt, driver, what string) error {
	name, found := otherFile(r, driver)
	if !found {
		return nil
	}
	return fmt.Errorf("the %s takes data from another file, %.255q; a conversion copies that file: if it belongs "+
		"to the disk, ask who made the image for one complete file", what, name)
}

// otherFile returns the other file that an image of a format of qemu names.
func otherFile(r io.ReaderAt, driver string) (name string, found bool) {
	head := make([]byte, 4096)
	_, _ = r.ReadAt(head, 0) // a descriptor can be short
	be, le := binary.BigEndian, binary.LittleEndian
	part := func(off uint64, length uint32) string {
		p, _ := io.ReadAll(io.NewSectionReader(r, int64(min(off, 1<<62)), int64(min(length, 1<<20))))
		return string(p)
	}
	switch driver {
	case "qcow", "qcow2": // qemu's docs/interop/qcow2, block/qcow.c
		if off := be.Uint64(head[8:]); off != 0 {
			return part(off, be.Uint32(head[16:])), true
		}
		const dataFile = 1 << 2 // of the incompatible features
		if driver == "qcow2" && be.Uint32(head[4:]) >= 3 && be.Uint64(head[72:])&dataFile != 0 {
			return part(dataFileName(head)), true
		}
	case "qed": // qemu's docs/interop/qed_spec
		if le.Uint64(head[16:])&1 != 0 {
			return part(uint64(le.Uint32(head[56:])), le.Uint32(head[60:])), true
		}
	case "vmdk": // qemu's block/vmdk.c
		text, extents := part(0, 1<<20), true
		if head[0] != '#' { // qemu reads a parent here, and extents of a disk without a capacity
			text, extents = part(512, 20*512), le.Uint64(head[12:]) == 0
			if extents {
				text += part(le.Uint64(head[28:])*512, 1<<20)
			}
		}
		m := vmdkParent().FindStringSubmatch(text)
		if m == nil && extents {
			m = vmdkExtent().FindStringSubmatch(text)
		}
		if m != nil {
			return m[1], true
		}
	}
	return "", false
}

// dataFileName finds the name of the external data file in the extensions of a qcow2 header.
func dataFileName(head []byte) (off uint64, length uint32) {
	be := binary.BigEndian
	for at := uint64(be.Uint32(head[100:])); at+8 <= uint64(len(head)); {
		kind, size := be.Uint32(head[at:]), be.Uint32(head[at+4:])
		if at += 8; kind == 0x44415441 {
			return at, size
		}
		if kind == 0 {
			break
		}
		at += (uint64(size) + 7) &^ 7
	}
	return 0, 0
}
