package host

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
)

// Arch is the machine's architecture in Go's spelling, such as amd64. An image
// root's is that of its /bin/sh, and empty when that is no program for Linux.
func (h *Host) Arch() string {
	if h.IsLive() {
		return runtime.GOARCH
	}
	file, err := h.Files.OpenRegular("/bin/sh")
	if err != nil {
		return ""
	}
	defer file.Close()
	var header [20]byte // up to e_machine of elf(5)
	if _, err := io.ReadFull(file, header[:]); err != nil || !bytes.HasPrefix(header[:], []byte("\x7fELF")) {
		return ""
	}
	// The values of EM_X86_64 and EM_AARCH64.
	return map[uint16]string{62: "amd64", 183: "arm64"}[binary.LittleEndian.Uint16(header[18:])]
}
