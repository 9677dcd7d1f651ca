package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Schema names the document's form; it changes when a reader would break.
const Schema = "eksnode.bench/v1"

// Document is a whole run, as it is kept.
type Document struct {
	Schema      string    `json:"schema"`
	Started     time.Time `json:"started"`
	Finished    time.Time `json:"finished"`
	Go          string    `json:"go"`
	Arch        string    `json:"arch"`
	Processors  int       `json:"processors"`
	LoadBefore  Load      `json:"load_before"`
	LoadAfter   Load      `json:"load_after"`
	Busy        float64   `json:"busy"` // share of the processors' time that everybody used
	RoundTripMS float64   `json:"round_trip_ms"`
	Sections    []Section `json:"sections"`
}

// Write keeps the document in a file, whose folder is made where it is missing.
func (d Document) Write(file string) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keeping the figures: %w", err)
	}
	return nil
}
