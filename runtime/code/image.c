/* placeholder of the library target */
typedef int image_c_is_coming;
