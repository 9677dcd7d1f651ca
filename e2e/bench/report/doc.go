// Package report is what benchmarks have to say: tables and goals for a
// person, and the same with every single figure for a program.
package report
