// Package contest times contestants that reach the same end by different
// means: side by side in one run, taking turns, so that what else the machine
// does hits them alike. Ratios between them hold on other machines too; times
// do not.
package contest
