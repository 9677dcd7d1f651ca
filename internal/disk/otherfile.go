package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
)

// vmdkNames matches the files that a VMDK descriptor names: parents, and extents with the
// data.
var vmdkNames = regexp.MustCompile(`(?m)^[ \t]*(?:parentFileNameHint[ \t]*=[ \t]*"([^"\n]*)"|(?:RW|RDONLY|NOACCESS)[ \t][^"\n]*"([^"\n]*)")`)

// refuseOthers returns an error if an image takes data from another file. A conversion would
// put the content of that file into its result, and the image chooses the file.
func refuseOthers(r io.ReaderAt, driver, what string) error {
	name, found := otherFile(r, driver)
	if !found {
		return nil
	}
	return fmt.Errorf("the %s takes data from another file, %.255q; a conversion copies that file: if it belongs to the disk, ask who made the image for one complete file", what, name)
}

// otherFile returns the other file that an image of a format of qemu names.
func otherFile(r io.ReaderAt, driver string) (name string, found bool) {
	head, _ := bytesAt(r, 0, 4096)
	if head == nil { // a descriptor can be short
		head = make([]byte, 4096)
		_, _ = r.ReadAt(head, 0)
	}
	be, le := binary.BigEndian, binary.LittleEndian
	part := func(off uint64, length uint32) string {
		p, _ := bytesAt(r, int64(min(off, 1<<62)), int(min(length, 1<<12)))
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
		sparse := bytes.HasPrefix(head, []byte("KDMV"))
		if sparse {
			head = []byte(part(le.Uint64(head[28:])*512, 1<<12))
		}
		for _, m := range vmdkNames.FindAllSubmatch(head, -1) {
			if parent := len(m[1]) > 0; parent || !sparse {
				return string(m[1]) + string(m[2]), true
			}
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
