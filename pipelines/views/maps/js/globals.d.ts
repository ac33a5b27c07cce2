// MapLibre GL JS, which the page has in a script of its own before this one.
declare const maplibregl: any;
